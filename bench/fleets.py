"""Let simulated fleets with random limits work against the real ledger, in simulated time.

Tasks, claims, heartbeats, and reports are those of PostgreSQL; only the agents and their accounts'
limits are simulated (`bench/fleet_worker.py`). The accounts' windows are told as the agents'
programs tell them: as a record of Claude Code, as one of Codex, or only by the error's words.
"""

import json
import subprocess
import sys
from typing import Any

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Sandbox
from config.local.places import PROJECT

FLEETS, QUICK_FLEETS = 200, 8
# No fleet begins after this time.
MOST_S, TIMEOUT_S = 5400, 9000


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Count tasks that start over a limit, and the time that agents idle beside due tasks."""
    fleets = QUICK_FLEETS if scale.quick else FLEETS
    url = sandbox.create_migrated("tenfour_fleets")
    argv = [sys.executable, "-m", "bench.fleet_worker", str(fleets), str(MOST_S)]
    ran = subprocess.run(
        argv,
        env=sandbox.env(url),
        cwd=PROJECT,
        check=True,
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
    )
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    say(f"{len(found)} of {fleets} fleets")
    for form in ("claude", "codex", "message", "none"):
        say(describe(form, [account for fleet in found for account in fleet[form]]))
    whole = {name: sum(fleet[name] for fleet in found) for name in found[0]["counts"]}
    say(f"{whole['claims']:,} claims, {whole['done']:,} tasks done, {whole['open']:,} left")
    return [
        Figure("fleets: tasks run over a limit", [whole["over"]], "", at_most(0)),
        Figure(
            "fleets: idle while allowed and due",
            [100 * whole["idle_s"] / (whole["idle_s"] + whole["busy_s"])],
            "%",
            at_most(2),
        ),
        Figure("fleets: tasks never done", [whole["open"]], "", at_most(0)),
    ]


def describe(form: str, accounts: list[dict[str, Any]]) -> str:
    idle, busy = (sum(each[name] for each in accounts) for name in ("idle_s", "busy_s"))
    share = 100 * idle / (idle + busy) if busy else 0.0
    limits = sum(each["limits"] for each in accounts)
    return f"{form}: {len(accounts)} accounts, {limits} limits reached, idle {share:.2f} %"
