"""The inbox where ten thousand questions were answered, beside the same with ten."""

import json
import subprocess
import sys
from typing import Any

from bench.figures import Figure, Say, Scale, at_most, ratios
from bench.servers import Ground
from config.local.places import PROJECT

FEW, MANY = 10, 10_000
OPEN = 3
AGENTS = 7
PERSON = "mara"
VISITS = 60
MOST = 1.5
PAGES = {"escalations": "/escalations/", "escalations, answered": "/escalations/?state=answered"}


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    urls = [filled(ground, count) for count in (FEW, MANY)]
    visits = VISITS // 4 if scale.quick else VISITS
    found = [[read(ground, url, visits) for url in urls] for _ in range(scale.rounds)]
    for page in PAGES:
        few, many = (each[page] for each in found[-1])
        say(f"{page}: p50 {few['p50_ms']} and {many['p50_ms']} ms, {many['queries']} queries")
    return [
        Figure(
            f"{page}, of {MANY:,} to of {FEW}: p50",
            ratios(
                [many[page]["p50_ms"] for _, many in found],
                [few[page]["p50_ms"] for few, _ in found],
            ),
            target=at_most(MOST),
            detail=found[-1][1][page],
        )
        for page in PAGES
    ]


def filled(ground: Ground, count: int) -> str:
    """Tasks that failed in one way, each answered with a fix and then done; some are still open."""
    url = ground.migrated(f"tenfour_answered_{count}")
    ground.fill(
        url,
        ("agents", {"count": AGENTS}),
        ("buried", {"count": count + OPEN}),
        ("answered", {"open": OPEN}),
        ("person", {"name": PERSON}),
        ("settle", {}),
    )
    argv = [sys.executable, "manage.py", "collectstatic", "--no-input", "-v0"]
    subprocess.run(argv, env=ground.env(url), cwd=PROJECT, check=True)
    return url


def read(ground: Ground, url: str, visits: int) -> dict[str, dict[str, Any]]:
    argv = [sys.executable, "-m", "bench.visitor", PERSON, str(visits), json.dumps(PAGES)]
    done = subprocess.run(
        argv, env=ground.env(url), cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found
