#!/bin/sh
# switch-release.sh FOLDER: run the release in this folder, a newer or the former one.
# Web processes are restarted one by one, so with at least two of them no request fails.
set -eu
release=$(readlink -f "$1")
current=/opt/tenfour/current

manage() {
    systemd-run --quiet --pipe --wait --uid=tenfour --working-directory="$release" \
        --property=EnvironmentFile=/etc/tenfour/environment \
        "$release/.venv/bin/python" manage.py "$@"
}

# A database that a newer release has migrated already serves this one, too.
manage migrate --check --skip-checks || manage migrate
manage collectstatic --noinput

# The link is replaced in one step. Running processes stay in the folder that they started in.
ln -sfn "$release" "$current.new"
mv -T "$current.new" "$current"

for unit in $(systemctl list-units --plain --no-legend --state=active 'tenfour-web@*' | cut -d ' ' -f 1); do
    systemctl restart "$unit"
    port=${unit#tenfour-web@}
    port=${port%.service}
    tries=60
    until curl -fsS -o /dev/null "http://127.0.0.1:$port/readyz"; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ]; then
            echo "$unit is not ready. The other processes still run the former release." >&2
            exit 1
        fi
        sleep 1
    done
done
# Workers first: older ones leave the jobs of a newer clock.
systemctl try-restart 'tenfour-worker@*'
systemctl try-restart tenfour-beat
