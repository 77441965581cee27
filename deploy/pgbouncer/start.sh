#!/bin/sh
# Write the one user's password where pgbouncer.ini expects it, then run PgBouncer.
set -eu
umask 077
printf '"tenfour" "%s"\n' "$POSTGRES_PASSWORD" >/tmp/users.txt
exec pgbouncer /etc/pgbouncer/pgbouncer.ini
