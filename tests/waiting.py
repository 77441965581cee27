"""How long tests wait for what must happen, and how: they poll for it, on a busy machine too."""

import time
from collections.abc import Callable
from typing import TypeVar

# Far longer than anything takes: a slow machine must not make a test fail.
PATIENCE_S = 180

Found = TypeVar("Found")


def wait_until(find: Callable[[], Found], explain: Callable[[], str] = str) -> Found:
    """Call `find` until it returns something true, and return that; fail with an explanation."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert time.monotonic() < deadline, f"it did not happen in {PATIENCE_S} s {explain()}"
        time.sleep(0.03)
    return found
