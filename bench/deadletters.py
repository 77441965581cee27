"""The pages of dead letters where a million of them lie."""

import json
import subprocess
import sys
from typing import Any

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Ground
from config.local.places import PROJECT

LETTERS = 1_000_000
AGENTS = 60
PERSON = "mara"
VISITS = 40
PAGE_MS = 100
PAGES = {
    "dead letters": "/dead-letters/",
    "dead letters of an agent": "/dead-letters/?q=agent:agent-00007",
    "dead letters, replayed": "/dead-letters/?q=state:replayed",
}


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    count = LETTERS // 10 if scale.quick else LETTERS
    url = ground.migrated("tenfour_buried")
    ground.fill(
        url,
        ("agents", {"count": AGENTS}),
        ("buried", {"count": count}),
        ("person", {"name": PERSON}),
        ("settle", {}),
    )
    argv = [sys.executable, "manage.py", "collectstatic", "--no-input", "-v0"]
    subprocess.run(argv, env=ground.env(url), cwd=PROJECT, check=True)
    visits = VISITS // 4 if scale.quick else VISITS
    found = [read(ground, url, visits) for _ in range(scale.rounds)]
    for page, last in found[-1].items():
        say(f"{page}: {last['queries']} queries, p50 {last['p50_ms']} ms, p95 {last['p95_ms']} ms")
    return [
        Figure(
            f"{page}, of {count:,}: p95",
            [each[page]["p95_ms"] for each in found],
            unit="ms",
            target=at_most(PAGE_MS),
            detail=found[-1][page],
        )
        for page in PAGES
    ]


def read(ground: Ground, url: str, visits: int) -> dict[str, dict[str, Any]]:
    argv = [sys.executable, "-m", "bench.visitor", PERSON, str(visits), json.dumps(PAGES)]
    done = subprocess.run(
        argv, env=ground.env(url), cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found
