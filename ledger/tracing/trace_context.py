"""W3C Trace Context: the trace that a call belongs to, and a link to it (pure)."""

import re
from contextvars import ContextVar
from dataclasses import dataclass

# Longer headers are of later versions, whose first four fields are these.
TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
LONGEST = 256
TRACE_ID_LENGTH = 32
SAMPLED = 1


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span of the caller's, as lower-case hexadecimal digits."""

    trace_id: str
    span_id: str
    is_sampled: bool = True


# The caller's, for the request that this thread serves.
received: ContextVar[TraceContext | None] = ContextVar("received", default=None)


def parse_traceparent(header: object) -> TraceContext | None:
    """Return the context in a `traceparent`, or None if it is not a valid one.

    >>> parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").span_id
    '00f067aa0ba902b7'
    >>> parse_traceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01")
    """
    if not isinstance(header, str) or len(header) > LONGEST:
        return None
    found = TRACEPARENT.fullmatch(header.strip())
    if found is None or not found[1].strip("0") or not found[2].strip("0"):
        return None
    if header.startswith("00-") and len(header.strip()) != 55:  # the first version has no more
        return None
    return TraceContext(found[1], found[2], bool(int(found[3], 16) & SAMPLED))


def build_trace_link(template: str, trace_id: str, span_id: str = "") -> str:
    """Return the address of a trace, or nothing without a template or a trace.

    >>> build_trace_link("https://traces.example.org/{trace_id}", "4bf9")
    'https://traces.example.org/4bf9'
    """
    if not template or not trace_id:
        return ""
    return template.replace("{trace_id}", trace_id).replace("{span_id}", span_id)
