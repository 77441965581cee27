"""Render each document in pieces."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from ledger import journal
from ledger.journal import Cursor
from retries.renderings import (
    failure_records,
    log_queries,
    plan_summary,
    retry_jsonl,
    retry_log,
    retry_state,
    state_md,
    state_queries,
)
from retries.renderings.log_entries import LogEntry
from retries.renderings.scope import RenderingScope


@dataclass(frozen=True, slots=True)
class Piece:
    """The lines of a followed log that came next, where they end, and if there are more now."""

    text: str
    end: Cursor
    has_more: bool


def render_log(scope: RenderingScope, *, now: datetime, tail: int | None = None) -> Iterator[str]:
    window = retry_log.WINDOW
    if tail is not None:
        last = log_queries.read_last_entries(
            scope, window=window, now=now, with_answers=True, most=tail
        )
        return iter(render_last_entries(last, retry_log.render_lines, tail))
    entries = log_queries.read_entries(scope, since=now - window, with_answers=True)
    return render_entries(entries, retry_log.render_lines)


def render_jsonl(scope: RenderingScope, *, now: datetime, tail: int | None = None) -> Iterator[str]:
    window = retry_jsonl.WINDOW
    if tail is not None:
        last = log_queries.read_last_entries(
            scope, window=window, now=now, with_answers=False, most=tail
        )
        return iter(render_last_entries(last, retry_jsonl.render_lines, tail))
    entries = log_queries.read_entries(scope, since=now - window, with_answers=False)
    return render_entries(entries, retry_jsonl.render_lines)


def follow_log(scope: RenderingScope, after: Cursor | None, *, now: datetime) -> Piece:
    """Render what was added to `retry.log` after a position, or its whole window without one."""
    start = after or journal.fetch_start(now - retry_log.WINDOW)
    return render_piece(scope, start, retry_log.render_lines, with_answers=True)


def follow_jsonl(scope: RenderingScope, after: Cursor | None, *, now: datetime) -> Piece:
    """Render what was added to `retry.jsonl` after a position, or its whole window without one."""
    start = after or journal.fetch_start(now - retry_jsonl.WINDOW)
    return render_piece(scope, start, retry_jsonl.render_lines, with_answers=False)


def render_piece(
    scope: RenderingScope,
    after: Cursor,
    render_lines: Callable[[LogEntry], list[str]],
    *,
    with_answers: bool,
) -> Piece:
    entries, end, has_more = log_queries.read_stream(scope, after, with_answers=with_answers)
    return Piece("".join(render_entries(iter(entries), render_lines)), end, has_more)


def render_entries(
    entries: Iterator[LogEntry], render_lines: Callable[[LogEntry], list[str]]
) -> Iterator[str]:
    for entry in entries:
        yield from render_lines(entry)


def render_last_entries(
    entries: Iterator[LogEntry], render_lines: Callable[[LogEntry], list[str]], most: int
) -> deque[str]:
    # Every event has a line, so `most` events suffice.
    return deque(render_entries(entries, render_lines), maxlen=most)


def render_state(scope: RenderingScope) -> Iterator[str]:
    return retry_state.render_document(
        state_queries.read_active_tasks(scope), state_queries.compute_stats(scope)
    )


def render_skips(scope: RenderingScope) -> Iterator[str]:
    return state_md.render_document(state_queries.list_skipped_tasks(scope))


def render_records(
    scope: RenderingScope, *, now: datetime, tail: int | None = None
) -> Iterator[str]:
    """Render `failure-records.yaml`, or its last `tail` records."""
    since = now - failure_records.WINDOW
    failed = state_queries.read_failures(scope, since=since, most=tail)
    return map(failure_records.render_record, failed)


def render_files(scope: RenderingScope, *, now: datetime) -> dict[str, Iterator[str]]:
    files = {
        "retry-state.json": render_state(scope),
        "retry.log": render_log(scope, now=now),
        "retry.jsonl": render_jsonl(scope, now=now),
        "state.md": render_skips(scope),
        "failure-records.yaml": render_records(scope, now=now),
    }
    if scope.plan:
        summary = state_queries.build_summary(scope.plan)
        files["summary.md"] = iter([plan_summary.render_markdown(summary)])
    return files
