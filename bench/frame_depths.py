"""Request a page at several depths of Python's stack; print processor times as JSON.

The first list has the milliseconds at each depth with frames in blocks of 16 KB, the second one
with all frames in one block.
"""

import json
import sys
import time

import django

from bench.page_client import Get, build_getter, freeze_loaded

DEPTHS = range(0, 120, 6)
VISITS, WARM_UP = 5, 4


def main(name: str, path: str) -> None:
    django.setup()
    from django.core.handlers.wsgi import WSGIHandler

    from config.requests.frame_memory import in_one_block

    pages = WSGIHandler()
    getters = [build_getter(name, pages), build_getter(name, in_one_block(pages))]
    freeze_loaded()
    for get in getters * WARM_UP:
        visit(get, path, 0)
    times: list[list[float]] = [[], []]
    for depth in DEPTHS:
        for n, get in enumerate(getters):
            times[n].append(min(visit(get, path, depth) for _ in range(VISITS)))
    print(json.dumps(times))


def visit(get: Get, path: str, depth: int) -> float:
    """Return the milliseconds of processor time of a visit, below `depth` more frames."""
    if depth:
        return visit(get, path, depth - 1)
    start = time.process_time()
    status, _ = get(path)
    assert status == 200, (path, status)
    return (time.process_time() - start) * 1000


if __name__ == "__main__":
    main(*sys.argv[1:])
