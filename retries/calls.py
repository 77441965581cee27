"""Call functions that may be async: tell them apart, and reach the database from a coroutine."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections

P = ParamSpec("P")
T = TypeVar("T")


def must_await(fn: Callable[..., Any]) -> bool:
    return is_async(fn) or is_in_coroutine()


def is_async(fn: Callable[..., Any]) -> bool:
    # A lambda that returns a coroutine is not recognized here.
    call = getattr(fn, "__call__", None)  # noqa: B004 - an object can have an async __call__
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(call)


def is_in_coroutine() -> bool:
    # Not whether a loop is running: some libraries keep one in the thread of synchronous code.
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


async def resolve(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


async def run_in_thread(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that uses the database in a thread, and return its result."""

    # Django does not allow the database in a coroutine. The thread can't be stopped, so a caller
    # that is cancelled meanwhile learns of it when the thread has ended.
    def run() -> T:
        try:
            return fn(*args, **kwargs)
        finally:
            close_old_connections()

    running = asyncio.ensure_future(sync_to_async(run)())
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
