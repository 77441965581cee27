"""Descriptors that turn functions of `tenfour.calls` into methods, sync and async."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from tenfour import calls
from tenfour.core import Call
from tenfour.models import Page

P = ParamSpec("P")
T = TypeVar("T")


class Performs(Protocol):
    """An object that can perform a call."""

    def perform(self, call: Call[T]) -> T: ...


class AsyncPerforms(Protocol):
    """An object that can perform a call asynchronously."""

    async def perform(self, call: Call[T]) -> T: ...


class Verb(Generic[P, T]):
    """A function of `tenfour.calls` as a method that performs its call."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    def __get__(self, owner: Performs, _: type | None = None) -> Callable[P, T]:
        def verb(*args: P.args, **kwargs: P.kwargs) -> T:
            return owner.perform(self._build(*args, **kwargs))

        return _named_after(self._build, verb)


class Listing(Generic[P, T]):
    """A function of `tenfour.calls` as a method that iterates over all pages."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    def __get__(self, owner: Performs, _: type | None = None) -> Callable[P, Iterator[T]]:
        def listing(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
            call: Call[Page[T]] | None = self._build(*args, **kwargs)
            while call is not None:
                page = owner.perform(call)
                yield from page.data
                call = calls.next_page(call, page)

        return _named_after(self._build, listing)


class AsyncVerb(Generic[P, T]):
    """Like `Verb`, to be awaited."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    def __get__(self, owner: AsyncPerforms, _: type | None = None) -> Callable[P, Awaitable[T]]:
        async def verb(*args: P.args, **kwargs: P.kwargs) -> T:
            return await owner.perform(self._build(*args, **kwargs))

        return _named_after(self._build, verb)


class AsyncListing(Generic[P, T]):
    """Like `Listing`, for `async for`."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    def __get__(self, owner: AsyncPerforms, _: type | None = None) -> Callable[P, AsyncIterator[T]]:
        async def listing(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
            call: Call[Page[T]] | None = self._build(*args, **kwargs)
            while call is not None:
                page = await owner.perform(call)
                for row in page.data:
                    yield row
                call = calls.next_page(call, page)

        return _named_after(self._build, listing)


def _named_after(build: Callable[..., Any], verb: Callable[P, T]) -> Callable[P, T]:
    # So that help() shows the arguments and what the verb does.
    verb.__name__, verb.__doc__ = build.__name__, build.__doc__
    verb.__wrapped__ = build  # type: ignore[attr-defined]
    return verb
