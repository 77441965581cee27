"""Every page at 200,000 instructions, a million events and 200 plans: queries, time, a poll's time."""

import json
import subprocess
import sys
from typing import Any

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Ground
from config.local.places import PROJECT

INSTRUCTIONS = 200_000
AGENTS = 60
PLANS = 200
MOST_TASKS = 500  # of the last plan
PERSON = "mara"
VISITS = 60
MOST_QUERIES, PAGE_MS, POLL_MS = 15, 60, 3


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    url = ground.migrated("tenfour_pages")
    ground.fill(
        url,
        ("agents", {"count": AGENTS}),
        ("month", {"count": INSTRUCTIONS}),
        ("plans", {"count": PLANS, "tasks": 12}),
        ("plans", {"count": 1, "tasks": MOST_TASKS}),
        ("person", {"name": PERSON}),
        ("settle", {}),
    )
    argv = [sys.executable, "manage.py", "collectstatic", "--no-input", "-v0"]
    subprocess.run(argv, env=ground.env(url), cwd=PROJECT, check=True)
    visits = VISITS // 5 if scale.quick else VISITS
    found = [read(ground, url, visits) for _ in range(scale.rounds)]
    for page, last in found[-1].items():
        say(f"{page}: {last['queries']} queries, p50 {last['p50_ms']} ms, p95 {last['p95_ms']} ms")
    return [figure for page in found[-1] for figure in figures_of(page, [f[page] for f in found])]


def read(ground: Ground, url: str, visits: int) -> dict[str, dict[str, Any]]:
    """What a process that visits every page so many times found."""
    argv = [sys.executable, "-m", "bench.visitor", PERSON, str(visits)]
    done = subprocess.run(
        argv, env=ground.env(url), cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def figures_of(page: str, rounds: list[dict[str, Any]]) -> list[Figure]:
    limit = POLL_MS if page.startswith("poll") else PAGE_MS
    times = [each["p95_ms"] for each in rounds]
    found = [
        Figure(f"{page}: p95", times, unit="ms", target=at_most(limit), detail=rounds[-1]),
    ]
    if not page.startswith("poll"):
        queries = [float(each["queries"]) for each in rounds]
        found.append(Figure(f"{page}: queries", queries, unit="", target=at_most(MOST_QUERIES)))
    return found
