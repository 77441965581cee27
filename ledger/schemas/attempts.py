"""Schemas of attempts and their failures, as they are read."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger.schemas.shapes import AT, Part, Shape, field
from ledger.states import FailureType, Outcome
from ledger.tracing.trace_context import TRACE_ID_LENGTH, build_trace_link


class FailureOut(Part):
    type: FailureType = field("the kind of failure", "verification_failed")
    code: str = field("a short code, such as permission_denied or assertion", "assertion")
    message: str = field(
        "the error in one line", "InvalidPlannerIdError not thrown for empty string"
    )
    details: str = field("the error's details, with secrets masked")
    root_cause_guess: str = field("what the agent thinks the cause is")
    suggested_fix: str = field("what the next attempt could do differently")
    verification: dict[str, Any] | None = field(
        "the verify command's exit code and output, or null",
        {"exit_code": 1, "output": "FAIL tests/PlannerId"},
    )
    files_modified: list[dict[str, Any]] = field(
        "files that the attempt changed: path, status, lines_changed"
    )
    learnings: list[str] = field("what the attempt learned")
    at: datetime = field("when it was recorded")


def find_trace_link(ids: str) -> str | None:
    trace_id, span_id = ids[:TRACE_ID_LENGTH], ids[TRACE_ID_LENGTH:]
    return build_trace_link(settings.TENFOUR["TRACE_URL"], trace_id, span_id) or None


class TraceOut(Part):
    # Its row is a text: the trace's id, followed by the span's.
    trace_id: str = field(
        "the trace's id, as 32 hexadecimal digits",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        source=lambda ids: ids[:TRACE_ID_LENGTH],
    )
    span_id: str = field(
        "the id of the span that claimed the attempt",
        "00f067aa0ba902b7",
        source=lambda ids: ids[TRACE_ID_LENGTH:],
    )
    url: str | None = field(
        "where to look at it, as TENFOUR_TRACE_URL says; null without that setting",
        "https://traces.example.org/trace/4bf92f3577b34da6a3ce929d0e0e4736",
        source=find_trace_link,
    )


class AttemptOut(Shape):
    id: UUID = field("the attempt's id")
    task: UUID = field("the task's id", source="task_id")
    number: int = field("the attempt's number within its task, from 1", 2)
    worker_id: str = field("the worker's name", "ci-7")
    outcome: Outcome | None = field("null while the attempt is running", "failure")
    started_at: datetime = field("when it started")
    ended_at: datetime | None = field("when it ended; null while it is running", AT)
    lease_expires_at: datetime = field("when the lease ends without a heartbeat")
    deadline_at: datetime = field("when the attempt times out, heartbeats or not")
    heartbeat_at: datetime | None = field("the last heartbeat; null if there was none", AT)
    heartbeats: int = field("number of heartbeats", 3)
    progress: dict[str, Any] | None = field(
        "the last progress that the agent reported", {"message": "wrote tests", "percent": 40}
    )
    last_output: str = field(
        "the last lines of the command's output, as heartbeats sent them; at most 4 KiB",
        "collected 212 items\n",
    )
    decision: dict[str, Any] | None = field(
        "the decision that followed the report; null before",
        {"decision": "wait", "reason": "attempts_left"},
    )
    usage: dict[str, Any] | None = field(
        "the tokens and the cost that its report named, or else its spans: input_tokens, "
        "cached_tokens, output_tokens, cost_usd, model, and source if it is 'spans', whose sums by "
        "model are in parts; null without them",
        {"input_tokens": 52100, "output_tokens": 1840, "cost_usd": 0.21},
    )
    checks: list[dict[str, Any]] = field(
        "how the commands ended that checked its work, oldest first: command, cwd, "
        "exit_code or why it is unknown, seen_by, at, duration_s, and tree",
        [
            {
                "command": "make test",
                "cwd": "/src/app",
                "exit_code": 1,
                "unknown": None,
                "seen_by": "client",
                "at": AT,
                "duration_s": 41.2,
                "tree": {"commit": "9c1f44a", "diff": None, "files": 0},
            }
        ],
        source=lambda row: row.checks or [],
    )
    tree: dict[str, Any] | None = field(
        "the files that it left: commit, diff, and files; null if they were not read"
    )
    trace: TraceOut | None = field(
        "the trace that the claim belonged to; null if neither side traces",
        source=lambda row: row.trace_id + row.span_id or None,
    )
    failure: FailureOut | None = field(
        "what went wrong; null if nothing did", source=lambda row: getattr(row, "failure", None)
    )
