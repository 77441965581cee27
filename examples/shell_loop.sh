#!/bin/sh
# Work on an agent's tasks with nothing but sh and curl.
#
#     TENFOUR_URL=… TENFOUR_TOKEN=… sh examples/shell_loop.sh COMMAND [ARGUMENT…]
#     TENFOUR_URL=… TENFOUR_TOKEN=… WAIT=1 sh examples/shell_loop.sh COMMAND [ARGUMENT…]   # until Ctrl-C
#
# The command reads the prompt from its input: what went wrong before, then the task. Its exit code
# and the end of its output are reported. Tenfour decides whether the task is tried again; the next
# attempt's prompt then says what went wrong. Where the task requires a verification, make the
# command check its own work, and set OF=verification.
#
# The loop ends with 0 when no task waits. If the agent may not work now, as with an open breaker, it
# prints the reason and ends with 3.
set -eu
: "${TENFOUR_URL:?}" "${TENFOUR_TOKEN:?}" "${1:?the command is missing}"
folder=$(mktemp -d)
attempt=

call() { # PATH, then options of curl; the token is not in the arguments, where others could read it
    path=$1
    shift
    curl -fsS --retry 5 --retry-connrefused -X POST "${TENFOUR_URL%/}/v1/$path" "$@" --config - <<CONFIG
header = "Authorization: Bearer $TENFOUR_TOKEN"
header = "Accept: text/plain"
CONFIG
}

beat() { # keeps the lease while the command runs
    trap 'kill "${nap:-}" 2>/dev/null; exit' TERM
    : >"$folder/beating"
    while :; do
        # The signal may come before the next line. What then sleeps on keeps no output open.
        sleep "${BEAT_S:-60}" >/dev/null 2>&1 &
        nap=$!
        wait "$nap"
        call "attempts/$1/heartbeat" -H 'Content-Type: application/json' -d '{}' >/dev/null || :
    done
}

stop_beats() { # the shell loses a signal that comes before the trap above is set
    until [ -e "$folder/beating" ] || ! kill -0 "$beats" 2>/dev/null; do sleep 0.1; done
    kill "$beats" 2>/dev/null || :
    rm -f "$folder/beating"
    beats=
}

finish() { # an interrupted attempt is released: it does not count
    [ -z "${beats:-}" ] || stop_beats
    [ -z "$attempt" ] || call "attempts/$attempt/release" -H 'Content-Type: application/json' \
        -d '{"reason": "shutdown"}' >/dev/null || :
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM

while :; do
    # A worker_id of its own lets a restarted loop go on with the attempt that it held.
    call claims -H 'Content-Type: application/json' -d "{\"worker_id\": \"${WORKER:-shell-1}\"}" \
        -D "$folder/headers" -o "$folder/prompt"
    attempt=$(tr -d '\r' <"$folder/headers" | sed -n 's/^[Tt]enfour-[Aa]ttempt: *//p')
    if [ -z "$attempt" ]; then
        reason=$(tr -d '\r' <"$folder/headers" | sed -n 's/^[Tt]enfour-[Rr]eason: *//p')
        if [ -z "${WAIT:-}" ]; then
            [ "${reason:-no_task}" != no_task ] || break
            echo "no task: $reason" >&2
            exit 3
        fi
        sleep "${POLL_S:-5}"
        continue
    fi
    beat "$attempt" &
    beats=$!
    if "$@" <"$folder/prompt" >"$folder/output" 2>&1; then code=0; else code=$?; fi
    stop_beats
    cat "$folder/output"
    tail -c 60000 "$folder/output" |
        call "attempts/$attempt/exit/$code?of=${OF:-command}" -H 'Content-Type: text/plain' \
            --data-binary @/dev/fd/3 -o /dev/null 3<&0 </dev/null
    echo "attempt $attempt ended with exit code $code" >&2
    attempt=
done
