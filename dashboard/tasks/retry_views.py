"""The form that retries a task with another payload; a failed one is replayed."""

import json
import math
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy

from dashboard.frame.rendering import Crumb, HtmxRequest, PageContext, begin_visit, respond
from dashboard.tasks import detail_queries
from ledger.errors import Invalid, PayloadTooLarge, Refusal, VersionMismatch
from ledger.journal import stamp_of
from ledger.models import Task
from ledger.secrets.notes import clean_note
from ledger.secrets.redaction import MASKED
from retries.verbs import tasks

CHANGED = "The task has changed since you opened this form. Check it, then send the form again."


class RetryForm(forms.Form):
    """The payload as JSON; what the ledger refuses becomes an error beside the field."""

    payload = forms.CharField(strip=False)
    note = forms.CharField(required=False)
    version = forms.IntegerField()

    def clean_payload(self) -> Any:
        try:
            text = self.cleaned_data["payload"]
            return json.loads(text, parse_constant=refuse_constant, parse_float=read_finite)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(describe_problem(error)) from error

    def send(self, request: HtmxRequest, task_id: UUID) -> UUID | None:
        """Retry the task and return the task to show, or None after adding the error."""
        given = self.cleaned_data
        options = given | {"note": clean_note(given["note"])}
        try:
            return tasks.retry_one(task_id, options, stamp_of(request))
        except (Invalid, PayloadTooLarge) as refusal:
            self.add_error("payload", refusal.detail)
        except VersionMismatch:
            self.add_error("payload", CHANGED)
        return None


def describe_problem(error: Exception) -> str:
    """Return what is wrong with a text that is no JSON.

    >>> describe_problem(json.JSONDecodeError("Expecting value", "{", 1))
    'This is not JSON: Expecting value, line 1 column 2.'
    """
    if isinstance(error, json.JSONDecodeError):
        return f"This is not JSON: {error.msg}, line {error.lineno} column {error.colno}."
    return "This is not JSON that Tenfour can store."


def refuse_constant(name: str) -> None:
    raise ValueError(name)


def read_finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(digits)
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPage(PageContext):
    row: Task
    form: RetryForm
    version: int
    is_redacted: bool


def edit(request: HtmxRequest, task_id: UUID) -> HttpResponse:
    visit = begin_visit(request, current="tasks")
    row = detail_queries.find_task(task_id)
    if row is None:
        raise Http404(f"There is no task {task_id}.")
    page = reverse("dashboard:task", args=[task_id]) + visit.scope.query
    posted = request.method == "POST"
    if not posted and not detail_queries.can_retry(row):
        messages.warning(request, "Nothing changed. This task can’t be retried now.")
        return redirect(page)
    text = json.dumps(row.payload, ensure_ascii=False, indent=2)
    form = RetryForm(request.POST) if posted else RetryForm(initial={"payload": text})
    try:
        sent = form.send(request, task_id) if posted and form.is_valid() else None
    except Refusal as refusal:
        form.add_error("payload", f"Nothing changed. {refusal.detail}")
        sent = None
    if sent:
        messages.success(request, "The next attempt gets this payload.")
        return redirect(reverse("dashboard:task", args=[sent]) + visit.scope.query)
    context = RetryPage(
        title=f"Change and retry · {str(row)[:60]}",
        heading="Change and retry",
        crumbs=(
            Crumb("Tasks", reverse_lazy("dashboard:tasks")),
            Crumb(row.ref or f"…{str(row.pk)[-8:]}", page),
        ),
        status_code=422 if posted else 200,
        row=row,
        form=form,
        version=row.version,
        is_redacted=bool(MASKED.search(text)),
    )
    return respond(visit, "tasks/retry.html", "tasks/_retry.html", context)
