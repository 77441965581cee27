"""Measure the Escalations page with 10,000 answered escalations against the page with 10."""

from bench.figures import Figure, Say, Scale, at_most, ratios
from bench.pages import OPERATOR, collect_static_files, visit_pages
from bench.servers import Sandbox

FEW, MANY = 10, 10_000
OPEN = 3
AGENTS = 7
VISITS = 60
MAX_RATIO = 1.5
PAGES = {
    "open escalations": "/escalations/",
    "answered escalations": "/escalations/?state=answered",
}


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    urls = [create_database(sandbox, count) for count in (FEW, MANY)]
    visits = VISITS // 4 if scale.quick else VISITS
    rounds = [
        [visit_pages(sandbox, url, visits, PAGES) for url in urls] for _ in range(scale.rounds)
    ]
    for page in PAGES:
        few, many = (each[page] for each in rounds[-1])
        say(f"{page}: p50 {few['p50_ms']} and {many['p50_ms']} ms, {many['queries']} queries")
    return [
        Figure(
            f"{page}, {MANY:,} / {FEW} answered: p50",
            ratios(
                [many[page]["p50_ms"] for _, many in rounds],
                [few[page]["p50_ms"] for few, _ in rounds],
            ),
            target=at_most(MAX_RATIO),
            detail=rounds[-1][1][page],
        )
        for page in PAGES
    ]


def create_database(sandbox: Sandbox, count: int) -> str:
    """Create a database with `count` answered escalations and a few open ones; return its URL."""
    url = sandbox.create_migrated(f"tenfour_escalations_{count}")
    sandbox.seed(
        url,
        ("agents", {"count": AGENTS}),
        ("dead_letters", {"count": count + OPEN}),
        ("escalations", {"open": OPEN}),
        ("operator", {"name": OPERATOR}),
        ("vacuum", {}),
    )
    collect_static_files(sandbox, url)
    return url
