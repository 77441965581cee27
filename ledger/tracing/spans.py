"""Spans of Tenfour's own work: claims, reports, and answers.

Without a tracer they cost a function call and load nothing. `config.tracing` sets the tracer if
OpenTelemetry is configured.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from ledger.tracing.trace_context import TraceContext, received

Value = str | int | bool | float | None


class Span(Protocol):
    """A span that is open. Its attributes never contain the text of a failure."""

    is_recording: bool
    context: TraceContext | None

    def set(self, attributes: dict[str, Value]) -> None: ...

    def link(self, context: TraceContext) -> None: ...


class Tracer(Protocol):
    """The object that opens spans below the current one, or below a remote one."""

    def start(self, name: str) -> AbstractContextManager[Span]: ...

    def enter(self, context: TraceContext) -> AbstractContextManager[None]: ...


class NoSpan(AbstractContextManager["Span"]):
    """Stands for a span while nothing is traced."""

    is_recording = False
    context: TraceContext | None = None

    def __enter__(self) -> "Span":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def set(self, attributes: dict[str, Value]) -> None:
        """Do nothing."""

    def link(self, context: TraceContext) -> None:
        """Do nothing."""


NO_SPAN = NoSpan()
tracer: Tracer | None = None


def start_span(name: str) -> AbstractContextManager[Span]:
    return NO_SPAN if tracer is None else tracer.start(name)


@contextmanager
def continue_trace(context: TraceContext | None) -> Iterator[None]:
    """Run a `with` block within a caller's trace that the request's headers don't name."""
    if context is None:
        yield
        return
    token = received.set(context)
    try:
        with nullcontext() if tracer is None else tracer.enter(context):
            yield
    finally:
        received.reset(token)
