"""Measure every page at 1,000,000 tasks against the same page of an almost empty project.

Both databases are served by processes of their own, and their pages are visited in turn. The plan of
each statement is read: none may walk through a large table.
"""

import json
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

from bench import page_client
from bench.figures import Figure, Say, Scale, at_most, ratios, summarize
from bench.page_comparison import Visitor, start_visitor
from bench.pages import MAX_QUERIES, OPERATOR, collect_static_files
from bench.servers import Sandbox
from config.local.places import PROJECT

TASKS, INSTRUCTIONS, AGENTS, PLANS = 1_000_000, 200_000, 60, 200
SMALL = 1000  # times fewer rows
VISITS, WARM_UP = 25, 4
MAX_RATIO, MAX_SEARCH_RATIO = 2, 2
PAGES = page_client.PAGES | {
    "tasks": "/tasks/",
    "tasks, by words": "/tasks/?q=importer",
    "tasks, failed": "/tasks/?q=state:failed",
    "tasks, tried three times": "/tasks/?q=attempts:%3E2",
    "tasks, reported blocked": "/tasks/?q=reason:reported",
    "search": "/search/?q=importer",
    "dead letters": "/dead-letters/",
    "dead letters, by time": "/dead-letters/?group=time",
    "dead letters, one agent": "/dead-letters/?q=agent:agent-00007",
    "patterns": "/patterns/",
    "patterns, one type": "/patterns/?q=type:review",
    "activity, oldest first": "/activity/?sort=oldest",
    "sessions": "/sessions/",
    "insight": "/insight/",
    "standing instructions": "/instructions/standing/",
    "operations": "/operations/",
    "deliveries": "/settings/deliveries/",
    "notifications": "/settings/notifications/",
    "people": "/settings/people/",
    "tokens": "/settings/tokens/",
    "policies": "/settings/policies/",
    "audit log": "/settings/audit/",
    "audit log, one actor": "/settings/audit/?q=actor:mara",
    "audit log, one agent": "/settings/audit/?q=agent:agent-00007",
}

HEADLINES = 1_000_000  # failures
# pages that find failures by the words of their headlines: one in four of these failures, and one in 2,000
FOUND = {
    "tasks, by a common word": "/tasks/?q=modulenotfounderror",
    "tasks, by a rare word": "/tasks/?q=lib720",
    "tasks, by the error": "/tasks/?q=error:lib720",
    "tasks, by the error, one agent": "/tasks/?q=error:modulenotfounderror+agent:agent-00007",
    "search, by a common word": "/search/?q=modulenotfounderror",
    "search, by a rare word": "/search/?q=lib720",
    "patterns, by a word": "/patterns/?q=error:lib720",
    "escalations, by a word": "/escalations/?q=error:lib720",
}


def run_words(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Compare finding words of headlines among a million failures, and among a thousand."""
    times = 20 if scale.quick else 1
    large, small = (
        seed_project(
            sandbox, f"tenfour_{name}", TASKS // part, INSTRUCTIONS // part, HEADLINES // part
        )
        for name, part in (("large", times), ("small", SMALL))
    )
    collect_static_files(sandbox, large)
    return compare_all(sandbox, (large, small), FOUND, scale, say)


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    times = 20 if scale.quick else 1
    large = seed_project(sandbox, "tenfour_large", TASKS // times, INSTRUCTIONS // times)
    small = seed_project(sandbox, "tenfour_small", TASKS // SMALL, INSTRUCTIONS // SMALL)
    figures = []
    collect_static_files(sandbox, large)
    for page, found in inspect_pages(sandbox, large).items():
        if found["scans"]:
            say(f"{page} reads whole tables: {', '.join(found['scans'])}")
        counts = [float(found["queries"])], [float(len(found["scans"]))]
        figures += [
            Figure(f"{page}: queries", counts[0], unit="", target=at_most(MAX_QUERIES)),
            Figure(f"{page}: whole tables read", counts[1], unit="", target=at_most(0)),
        ]
    return [*figures, *compare_all(sandbox, (large, small), PAGES, scale, say)]


def compare_all(
    sandbox: Sandbox, urls: tuple[str, str], pages: dict[str, str], scale: Scale, say: Say
) -> list[Figure]:
    """Compare pages of a large and a small database, and a search with a list."""
    figures = []
    with ExitStack() as stack:
        sides = [
            stack.enter_context(start_visitor(sandbox.env(url), PROJECT, OPERATOR)) for url in urls
        ]
        for side in sides:
            side.paths.update(pages)
        assert {*sides[0].paths} == {*sides[1].paths}
        for page in sides[0].paths if pages is PAGES else pages:
            figures.append(compare_sizes(page, *sides, rounds=scale.rounds))
            say(f"{figures[-1].name}: {figures[-1].median:.2f}")
        if {"search", "tasks"} <= pages.keys():
            figures.append(compare_paths("search", "tasks", sides[0], rounds=scale.rounds))
    return figures


def seed_project(
    sandbox: Sandbox, name: str, tasks: int, instructions: int, headlines: int = 0
) -> str:
    """Create a database of a project with this many rows and return its URL."""
    url = sandbox.create_migrated(name)
    sandbox.seed(
        url,
        ("agents", {"count": AGENTS}),
        ("instruction_month", {"count": instructions}),
        ("volume", {"count": tasks, "headlines": headlines}),
        ("plans", {"count": PLANS if tasks > TASKS // SMALL else 2, "tasks": 12}),
        ("details", {}),
        ("new_words", {}),
        ("operator", {"name": OPERATOR}),
    )
    rebuild = [sys.executable, "manage.py", "rebuild_activity"]
    subprocess.run(rebuild, env=sandbox.env(url), cwd=PROJECT, check=True, capture_output=True)
    sandbox.seed(url, ("vacuum", {}))
    return url


def inspect_pages(sandbox: Sandbox, url: str) -> dict[str, dict[str, Any]]:
    """Return by page the number of its statements and the large tables that they walk through."""
    argv = [sys.executable, "-m", "bench.page_plans", OPERATOR, json.dumps(PAGES)]
    found = subprocess.run(
        argv, env=sandbox.env(url), cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    pages: dict[str, dict[str, Any]] = json.loads(found.stdout.splitlines()[-1])
    return pages


def compare_sizes(page: str, large: Visitor, small: Visitor, *, rounds: int) -> Figure:
    return compare(f"{page}: p95 / small", (large, page), (small, page), MAX_RATIO, rounds)


def compare_paths(page: str, other: str, side: Visitor, *, rounds: int) -> Figure:
    return compare(f"{page}: p95 / {other}", (side, page), (side, other), MAX_SEARCH_RATIO, rounds)


def compare(
    name: str, one: tuple[Visitor, str], other: tuple[Visitor, str], limit: float, rounds: int
) -> Figure:
    """Visit two pages in turn and compare their times."""
    sides = (one, other)
    for _ in range(WARM_UP):
        for visitor, page in sides:
            visitor.visit(page)
    p95: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(VISITS):
            for n in (0, 1) if number % 2 else (1, 0):
                visitor, page = sides[n]
                times[n].append(visitor.visit(page)[0])
        for n in (0, 1):
            p95[n].append(sorted(times[n])[VISITS * 95 // 100])
    detail = {"large_ms": summarize(p95[0]), "small_ms": summarize(p95[1])}
    return Figure(name, ratios(*p95), target=at_most(limit), detail=detail)
