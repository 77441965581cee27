"""The trace that an attempt belongs to, and the attributes of the spans of claims and reports."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Attempt
from ledger.tracing import genai_attributes as genai
from ledger.tracing.spans import Span, Value
from ledger.tracing.trace_context import TraceContext, build_trace_link, received

# The names of the workers whose attempts belong to a coding agent's conversation.
SESSION = "session:"
STORE = """update ledger_attempt set trace_id = %(trace_id)s, span_id = %(span_id)s
where id = any(%(ids)s)"""


def trace_claim(span: Span, rows: Sequence[Row]) -> None:
    # The trace is the caller's, or Tenfour's own if the caller has none. Without either, do
    # nothing.
    opened = [row for row in rows if row["id"] is not None and not row["resumed"]]
    if opened and (context := received.get() or span.context):
        ids = [row["attempt_id"] for row in opened]
        sql.run(STORE, ids=ids, trace_id=context.trace_id, span_id=context.span_id)
        for row in opened:
            row["latest_trace"] = context.trace_id + context.span_id
    if not span.is_recording:
        return
    span.set({"tenfour.tasks": len(rows)})
    if rows:
        span.set(describe_attempt(find_attempts([rows[0]["attempt_id"]])[0]))
        for former in find_former([row for row in opened if row["attempt_number"] > 1]):
            span.link(former)


def trace_report(span: Span, attempt_id: UUID, decision: dict[str, Any]) -> None:
    """Describe a report and its decision; link to where the attempt was claimed."""
    if not span.is_recording:
        return
    attempt = find_attempts([attempt_id])[0]
    span.set(describe_attempt(attempt))
    verdict = decision.get("verdict") or {}
    span.set(
        {
            "tenfour.decision": decision["decision"],
            "tenfour.reason": decision["reason"],
            "error.type": verdict.get("type"),
        }
    )
    if attempt.trace_id:
        span.link(TraceContext(attempt.trace_id, attempt.span_id))


def describe_attempt(attempt: Attempt) -> dict[str, Value]:
    worker = attempt.worker_id
    return {
        "tenfour.task.id": str(attempt.task_id),
        "tenfour.attempt.id": str(attempt.id),
        "tenfour.attempt.number": attempt.number,
        "tenfour.worker.id": worker,
        genai.AGENT_ID: str(attempt.agent_id),
        genai.AGENT_NAME: attempt.agent.name,
        genai.CONVERSATION_ID: worker.removeprefix(SESSION) if worker.startswith(SESSION) else None,
    }


def find_attempts(ids: Iterable[UUID]) -> list[Attempt]:
    rows = Attempt.objects.filter(pk__in=list(ids)).select_related("agent").order_by("pk")
    return list(rows.only("task", "number", "worker_id", "trace_id", "span_id", "agent__name"))


def find_former(rows: Iterable[Row]) -> list[TraceContext]:
    # A retry is a trace of its own, so it needs links to the traces of the earlier attempts.
    former = {(row["id"], row["attempt_number"] - 1) for row in rows}
    found = (
        Attempt.objects.filter(task__in=[task for task, _ in former])
        .exclude(trace_id="")
        .order_by("pk")
        .values_list("task_id", "number", "trace_id", "span_id")
    )
    return [TraceContext(trace, span) for task, n, trace, span in found if (task, n) in former]


def link_to_trace(attempt: Attempt) -> str:
    return build_trace_link(settings.TENFOUR["TRACE_URL"], attempt.trace_id, attempt.span_id)
