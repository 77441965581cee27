"""Coroutines in tests."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def told(story: Coroutine[Any, Any, T]) -> T:
    """Run it in a thread of its own: in this one a browser test may keep a loop running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, story).result()
