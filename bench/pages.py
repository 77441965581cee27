"""Measure every page and its poll at 200,000 instructions, 1,000,000 events, and 200 plans."""

import json
import subprocess
import sys
from typing import Any

from bench.figures import Figure, Say, Scale, at_most
from bench.page_comparison import compare_pages
from bench.servers import Sandbox
from config.local.places import PROJECT

INSTRUCTIONS = 200_000
AGENTS = 60
PLANS = 200
LARGE_PLAN_TASKS = 500
OPERATOR = "mara"
VISITS = 60
MAX_QUERIES, PAGE_MS, POLL_MS = 15, 60, 3


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    url = sandbox.create_migrated("tenfour_pages")
    sandbox.seed(
        url,
        ("agents", {"count": AGENTS}),
        ("instruction_month", {"count": INSTRUCTIONS}),
        ("plans", {"count": PLANS, "tasks": 12}),
        ("plans", {"count": 1, "tasks": LARGE_PLAN_TASKS}),
        ("operator", {"name": OPERATOR}),
        ("vacuum", {}),
    )
    visits = VISITS // 5 if scale.quick else VISITS
    if scale.against:
        return compare_pages(sandbox, url, OPERATOR, visits, scale, say)
    collect_static_files(sandbox, url)
    rounds = [visit_pages(sandbox, url, visits) for _ in range(scale.rounds)]
    for page, last in rounds[-1].items():
        say(f"{page}: {last['queries']} queries, p50 {last['p50_ms']} ms, p95 {last['p95_ms']} ms")
    return [
        figure
        for page in rounds[-1]
        for figure in build_figures(page, [each[page] for each in rounds])
    ]


def collect_static_files(sandbox: Sandbox, url: str) -> None:
    argv = [sys.executable, "manage.py", "collectstatic", "--no-input", "-v0"]
    subprocess.run(argv, env=sandbox.env(url), cwd=PROJECT, check=True)


def visit_pages(
    sandbox: Sandbox, url: str, visits: int, pages: dict[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Visit each page in a separate process; return times and query counts by page name.

    Without `pages`, visit the default pages and poll those that update live.
    """
    argv = [sys.executable, "-m", "bench.page_client", OPERATOR, str(visits)]
    if pages:
        argv.append(json.dumps(pages))
    completed = subprocess.run(
        argv, env=sandbox.env(url), cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    results: dict[str, dict[str, Any]] = json.loads(completed.stdout)
    return results


def build_figures(page: str, rounds: list[dict[str, Any]]) -> list[Figure]:
    """Build the time figure of a page or poll, and the query figure of a page."""
    is_poll = page.endswith(" poll")
    times = [each["p95_ms"] for each in rounds]
    target = at_most(POLL_MS if is_poll else PAGE_MS)
    figures = [Figure(f"{page}: p95", times, unit="ms", target=target, detail=rounds[-1])]
    if not is_poll:
        queries = [float(each["queries"]) for each in rounds]
        figures.append(Figure(f"{page}: queries", queries, unit="", target=at_most(MAX_QUERIES)))
    return figures
