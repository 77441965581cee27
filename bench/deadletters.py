"""Measure the dead-letter pages with a million dead letters."""

from bench.figures import Figure, Say, Scale, at_most
from bench.pages import OPERATOR, collect_static_files, visit_pages
from bench.servers import Sandbox

DEAD_LETTERS = 1_000_000
AGENTS = 60
VISITS = 40
PAGE_MS = 100
PAGES = {
    "dead letters": "/dead-letters/",
    "dead letters, one agent": "/dead-letters/?q=agent:agent-00007",
    "dead letters, replayed": "/dead-letters/?q=state:replayed",
}


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    count = DEAD_LETTERS // 10 if scale.quick else DEAD_LETTERS
    url = sandbox.create_migrated("tenfour_deadletters")
    sandbox.seed(
        url,
        ("agents", {"count": AGENTS}),
        ("dead_letters", {"count": count}),
        ("operator", {"name": OPERATOR}),
        ("vacuum", {}),
    )
    collect_static_files(sandbox, url)
    visits = VISITS // 4 if scale.quick else VISITS
    rounds = [visit_pages(sandbox, url, visits, PAGES) for _ in range(scale.rounds)]
    for page, last in rounds[-1].items():
        say(f"{page}: {last['queries']} queries, p50 {last['p50_ms']} ms, p95 {last['p95_ms']} ms")
    return [
        Figure(
            f"{page}, {count:,} rows: p95",
            [each[page]["p95_ms"] for each in rounds],
            unit="ms",
            target=at_most(PAGE_MS),
            detail=rounds[-1][page],
        )
        for page in PAGES
    ]
