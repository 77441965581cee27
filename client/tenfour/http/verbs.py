"""Descriptors that make methods of calls and operations, once for both kinds of driver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tenfour.api.calls import next_page
from tenfour.http.async_driver import AsyncDriver
from tenfour.http.core import Call, Core
from tenfour.http.drivers import Driver, Exhausted
from tenfour.http.exchange import Steps
from tenfour.http.values import Page

# Which driver takes the steps: `Driver` blocks, `AsyncDriver` is awaited.
D = TypeVar("D", bound=Driver | AsyncDriver)
P = ParamSpec("P")
T = TypeVar("T")


class Driven(Generic[D]):
    """An object whose methods run with a driver."""

    def __init__(self, driver: D, core: Core) -> None:
        self._driver: D = driver
        self._core = core


class Method(Generic[P, T]):
    """A method that returns its result with a blocking driver, and an awaitable with the other."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, owner: Driven[Driver], kind: type | None = ...) -> Callable[P, T]: ...

    @overload
    def __get__(
        self, owner: Driven[AsyncDriver], kind: type | None = ...
    ) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self._build
        steps = self._bound_to(owner)

        def method(*args: Any, **kwargs: Any) -> Any:
            return owner._driver.run(steps(*args, **kwargs))

        return named_after(self._build, method)

    def _bound_to(self, owner: Driven[Any]) -> Callable[..., Steps[T]]:
        raise NotImplementedError


class Verb(Method[P, T]):
    """A function that returns a call, as a method that performs it."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        super().__init__(build)

    def _bound_to(self, owner: Driven[Any]) -> Callable[..., Steps[T]]:
        return lambda *args, **kwargs: owner._core.perform(self._build(*args, **kwargs))


class Operation(Method[P, T]):
    """A generator method that yields steps, as a method that takes them."""

    def __init__(self, build: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        super().__init__(build)

    def _bound_to(self, owner: Driven[Any]) -> Callable[..., Steps[T]]:
        return MethodType(self._build, owner)


class Listing(Generic[P, T]):
    """A function that returns the call for a page, as a method that iterates over all rows."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(
        self, owner: Driven[Driver], kind: type | None = ...
    ) -> Callable[P, Iterator[T]]: ...

    @overload
    def __get__(
        self, owner: Driven[AsyncDriver], kind: type | None = ...
    ) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self._build

        def listing(*args: Any, **kwargs: Any) -> Any:
            rows = Rows(owner._core, self._build(*args, **kwargs))
            return owner._driver.iterate(rows.advance)

        return named_after(self._build, listing)


class Rows(Generic[T]):
    """The rows of all pages, one at a time."""

    def __init__(self, core: Core, call: Call[Page[T]]) -> None:
        self._core = core
        self._call: Call[Page[T]] | None = call
        self._rows: Iterator[T] = iter(())

    def advance(self) -> Steps[T]:
        """Return the next row; raises Exhausted at the end."""
        while True:
            for row in self._rows:
                return row
            if self._call is None:
                raise Exhausted
            page = yield from self._core.perform(self._call)
            self._rows, self._call = iter(page.data), next_page(self._call, page)


def named_after(build: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    # So that help() shows the arguments and what the method does.
    method.__name__, method.__doc__ = build.__name__, build.__doc__
    method.__wrapped__ = build  # type: ignore[attr-defined]
    return method
