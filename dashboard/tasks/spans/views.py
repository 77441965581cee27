"""The spans of an attempt: a part of its task's page, loaded when it is opened, and a page."""

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse, reverse_lazy

from dashboard.frame.rendering import (
    Crumb,
    HtmxRequest,
    begin_visit,
    compose_page,
    respond,
    wants_part,
)
from dashboard.tasks.spans.waterfall import build_waterfall
from ledger.models import Attempt
from retries.claiming.attempt_traces import link_to_trace
from retries.models import AttemptSpan, AttemptTrace
from retries.traces.otlp import is_id

SPANS_SHOWN = 300


def index(request: HtmxRequest, task_id: UUID, number: int) -> HttpResponse:
    rows = Attempt.objects.filter(task=task_id, number=number)
    attempt = rows.select_related("task__agent").defer("task__payload", "task__result").first()
    if attempt is None:
        raise Http404(f"There is no attempt {number} of the task {task_id}.")
    trace = AttemptTrace.objects.filter(attempt=attempt).first()
    stored = AttemptSpan.objects.filter(attempt=attempt)
    first = stored.defer("attributes").order_by("started_at", "span_id")[:SPANS_SHOWN]
    spans = build_waterfall(list(first) if trace else [])
    if wants_part(request):
        part = {"attempt": attempt, "trace": trace, "spans": spans}
        return render(request, "tasks/_waterfall.html", part)
    task, span = attempt.task, request.GET.get("span", "")
    visit = begin_visit(request, current="tasks")
    page = compose_page(
        title=f"Spans of attempt {number} · {str(task)[:60]}",
        heading=f"Spans of attempt {number}",
        crumbs=(
            Crumb("Tasks", reverse_lazy("dashboard:tasks")),
            Crumb(
                task.ref or f"…{str(task.pk)[-8:]}",
                reverse("dashboard:task", args=[task.pk]) + visit.scope.query,
            ),
        ),
        attempt=attempt,
        trace=trace,
        spans=spans,
        chosen=stored.filter(span_id=span).first() if is_id(span, 16) else None,
        url=link_to_trace(attempt),
    )
    return respond(visit, "tasks/spans.html", "tasks/_spans.html", page)
