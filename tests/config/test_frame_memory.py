"""The frames of a page stay in one block of memory, however deep the web server calls it."""

import resource
from collections.abc import Callable
from functools import partial

from config.requests.frame_memory import in_one_block

CALLS = 500
DEPTHS = range(150)


def render(_environ: object, _start_response: object) -> int:
    """Call functions in a loop, as templates do; return how often the system gave memory."""

    def leaf() -> None:
        a = b = c = d = e = f = None
        del a, b, c, d, e, f

    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(CALLS):
        leaf()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def call_below(depth: int, function: Callable[[], int]) -> int:
    return call_below(depth - 1, function) if depth else function()


def test_no_depth_asks_the_system_for_memory_on_each_call() -> None:
    plain = [call_below(depth, partial(render, {}, None)) for depth in DEPTHS]
    one_block = [call_below(depth, partial(in_one_block(render), {}, None)) for depth in DEPTHS]
    assert max(plain) >= CALLS, (
        "CPython keeps its blocks now: config/requests/frame_memory.py can go"
    )
    assert max(one_block) < CALLS // 2


def test_the_application_is_called_as_before() -> None:
    seen = []
    application = in_one_block(lambda *given: seen.append(given) or [b"body"])
    environ, start_response = {"PATH_INFO": "/"}, print
    assert application(environ, start_response) == [b"body"]
    assert seen == [(environ, start_response)]
