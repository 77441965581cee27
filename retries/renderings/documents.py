"""The renderings as documents: which there are, and the text of each, in pieces."""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime

from retries.renderings import (
    log_queries,
    plan_summary,
    retry_jsonl,
    retry_log,
    retry_state,
    state_md,
)
from retries.renderings.log_entries import Happening
from retries.renderings.log_queries import About


def log(about: About, *, now: datetime, tail: int | None = None) -> Iterator[str]:
    """`retry.log`: whole, or its last `tail` lines."""
    window = retry_log.WINDOW
    if tail is not None:
        last = log_queries.happened_last(
            about, window=window, now=now, with_answers=True, most=tail
        )
        return iter(cut(last, retry_log.lines, tail))
    found = log_queries.happened(about, since=now - window, with_answers=True)
    return rendered(found, retry_log.lines)


def jsonl(about: About, *, now: datetime, tail: int | None = None) -> Iterator[str]:
    """`retry.jsonl`: whole, or its last `tail` lines."""
    window = retry_jsonl.WINDOW
    if tail is not None:
        last = log_queries.happened_last(
            about, window=window, now=now, with_answers=False, most=tail
        )
        return iter(cut(last, retry_jsonl.lines, tail))
    found = log_queries.happened(about, since=now - window, with_answers=False)
    return rendered(found, retry_jsonl.lines)


def rendered(found: Iterator[Happening], lines: Callable[[Happening], list[str]]) -> Iterator[str]:
    for happening in found:
        yield from lines(happening)


def cut(
    found: Iterator[Happening], lines: Callable[[Happening], list[str]], most: int
) -> deque[str]:
    """The last lines: an event has at least one, so as many events are enough."""
    return deque(rendered(found, lines), maxlen=most)


def state(about: About) -> Iterator[str]:
    """`retry-state.json`."""
    return retry_state.document(log_queries.entries(about), log_queries.stats(about))


def skips(about: About) -> Iterator[str]:
    """`state.md`."""
    return state_md.document(log_queries.skipped(about))


def files(about: About, *, now: datetime) -> dict[str, Iterator[str]]:
    """Every file of an export, by its name."""
    found = {
        "retry-state.json": state(about),
        "retry.log": log(about, now=now),
        "retry.jsonl": jsonl(about, now=now),
        "state.md": skips(about),
    }
    if about.plan:
        found["summary.md"] = iter([plan_summary.markdown(log_queries.summary(about.plan))])
    return found
