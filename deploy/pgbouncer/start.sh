#!/bin/sh
# Write the user's password to the file that pgbouncer.ini names, then run PgBouncer.
set -eu
umask 077
printf '"tenfour" "%s"\n' "$POSTGRES_PASSWORD" >/tmp/users.txt
exec pgbouncer /etc/pgbouncer/pgbouncer.ini
