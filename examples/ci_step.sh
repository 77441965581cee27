#!/bin/sh
# A step of a CI job: run the tests, and give a failure to an agent as a task, once per commit.
#
#     TENFOUR_URL=… TENFOUR_TOKEN=… AGENT=coder COMMIT=… sh examples/ci_step.sh 'make test'
#
# The token is an orchestrator's. The task's verify command is the step's own command, so the agent's
# work is checked as the CI checks it. The step's exit code is that of the tests, whether Tenfour
# can be reached or not. Needs curl and python3.
set -u
: "${TENFOUR_URL:?}" "${TENFOUR_TOKEN:?}" "${AGENT:?}" "${COMMIT:?}" "${1:?the command is missing}"
log=$(mktemp)
trap 'rm -f "$log" "$log.json"' EXIT

sh -c "$1" >"$log" 2>&1
code=$?
cat "$log"
[ "$code" -ne 0 ] || exit 0

python3 - "$1" "$log" "$code" >"$log.json" <<'END'
import json, os, sys
command, log, code = sys.argv[1:]
output = open(log, encoding="utf-8", errors="replace").read()[-20000:].replace("\x00", "")
commit = os.environ["COMMIT"]
print(json.dumps({
    "agent": os.environ["AGENT"],
    "type": "fix-ci",
    "title": f"Fix `{command[:100]}` at {commit[:12]}",
    "payload": {
        "commit": commit,
        "exit_code": int(code),
        "output": output,
        "verify": {"command": command},
    },
}))
END

# With the same key, a job that is run again gets the same task.
if curl -fsS --max-time 30 --retry 2 --retry-connrefused -o /dev/null "${TENFOUR_URL%/}/v1/tasks" \
    -H 'Content-Type: application/json' -H "Idempotency-Key: ci-$COMMIT" --data "@$log.json" --config - <<CONFIG
header = "Authorization: Bearer $TENFOUR_TOKEN"
CONFIG
then
    echo "The failure is a task of $AGENT now: ${TENFOUR_URL%/}/tasks/" >&2
else
    echo "Tenfour did not take the failure; see the error above." >&2
fi
exit "$code"
