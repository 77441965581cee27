"""Time a claim and a report with and without budgets, and reports of 8 workers at once."""

import statistics
import subprocess
import sys
import time

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Sandbox
from bench.stress import fetch_count
from config.local.places import PROJECT

ROUNDS = 40
WORKERS, EACH = 8, 250
TIMEOUT_S = 1800
COUNTED = "select used::bigint from ledger_budget where plan_id is null and unit = 'tokens'"


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Compare an agent whose project and plan have budgets with one that has none."""
    url = sandbox.create_migrated("tenfour_budgets")
    rounds = ROUNDS // 4 if scale.quick else ROUNDS
    each = EACH // 5 if scale.quick else EACH
    tasks = 25 * rounds + WORKERS * each
    sandbox.seed(url, ("agents", {"count": 1}), ("budgeted_tasks", {"count": tasks}))
    env = sandbox.env(url)
    argv = [sys.executable, "-m", "bench.budgets_worker"]
    timed = subprocess.run(
        [*argv, "time", str(rounds)], env=env, cwd=PROJECT, check=True, capture_output=True
    )
    claim, report, claim_with, report_with = (
        list(map(float, line.split())) for line in timed.stdout.splitlines()
    )
    say(
        f"a claim: {statistics.median(claim):.2f} ms, with budgets "
        f"{statistics.median(claim_with):.2f}; a report: {statistics.median(report):.2f}, with "
        f"budgets {statistics.median(report_with):.2f}"
    )
    rates = {}
    for name in ("agent-00001", "budgeted"):
        start = time.monotonic()
        workers = [
            subprocess.Popen([*argv, "work", name, str(each)], env=env, cwd=PROJECT)
            for _ in range(WORKERS)
        ]
        for worker in workers:
            worker.wait(timeout=TIMEOUT_S)
        rates[name] = WORKERS * each / (time.monotonic() - start)
    lost = 1000 * tasks - fetch_count(url, COUNTED)
    return [
        Figure(
            "budgets: claim with / without",
            [b / a for a, b in zip(claim, claim_with, strict=True)],
            target=at_most(1.15),
        ),
        Figure(
            "budgets: report with / without",
            [b / a for a, b in zip(report, report_with, strict=True)],
        ),
        Figure(
            f"budgets: claim and report, {WORKERS} workers of one project",
            [rates["budgeted"]],
            unit="/s",
        ),
        Figure(f"the same without budgets, {WORKERS} workers", [rates["agent-00001"]], unit="/s"),
        Figure("budgets: tokens lost or counted twice", [float(lost)], unit="", target=at_most(0)),
    ]
