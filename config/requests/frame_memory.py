"""Keep the Python frames of a request in one block of memory.

CPython stores the frames of a thread in blocks of 16 KB. It frees a block as soon as the last frame
in it returns, so a loop that calls a function right where a block ends takes memory from the system
and gives it back on each call. Templates call so deep that a page meets several of these places;
which loops they hit depends on the web server's own frames. A frame that is larger than a block
gets a larger block, and the frames of what it calls use the rest of it (`push_chunk` in CPython's
Python/pystate.c). docs/performance.md has the figures.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

# The frame's size in values of 8 bytes: its block has 256 KB, and half of that is left for others.
FRAME_VALUES = 16_000


T = TypeVar("T")
Application = Callable[[dict[str, Any], Callable[..., Any]], T]


def in_one_block(respond: Application[T]) -> Application[T]:
    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> T:
        return respond(environ, start_response)

    code = application.__code__.replace(co_stacksize=FRAME_VALUES)
    return FunctionType(code, globals(), closure=application.__closure__)
