"""The form that changes a task and retries it; a failed one is replayed."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy
from django.utils import timezone

from dashboard.frame.access import may_open
from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import Crumb, HtmxRequest, begin_visit, compose_page, respond
from dashboard.tasks import detail_queries
from dashboard.tasks.forms.fields import (
    NO_BUDGET,
    PayloadField,
    TermsForm,
    add_refusal,
    format_payload,
    list_known_agents,
    read_budget,
)
from ledger import agents
from ledger.errors import Invalid, PayloadTooLarge, Refusal, VersionMismatch
from ledger.journal import stamp_of
from ledger.models import Task
from ledger.secrets.notes import clean_note
from ledger.secrets.redaction import MASKED
from ledger.tasks.spec import MAX_ATTEMPTS
from retries.budgets.editing import read_spec
from retries.verbs import tasks

CHANGED = "The task has changed since you opened this form. Check it, then send the form again."


class RetryForm(TermsForm):
    """The payload and the terms of the next attempts; refusals become errors at their fields.

    A field with the task's own value changes nothing.
    """

    payload = PayloadField()
    note = forms.CharField(required=False)
    version = forms.IntegerField()

    @property
    def terms(self) -> list[forms.BoundField]:
        return [self[name] for name in TermsForm.base_fields]

    def send(self, request: HtmxRequest, row: Task) -> UUID | None:
        """Retry the task and return the task to show, or None after adding the error."""
        try:
            return tasks.retry_one(row.pk, self.read_options(row, request), stamp_of(request))
        except VersionMismatch:
            self.add_error("payload", CHANGED)
        except (Invalid, PayloadTooLarge, agents.UnknownAgent) as refusal:
            add_refusal(self, refusal)
        return None

    def read_options(self, row: Task, request: HtmxRequest) -> dict[str, Any]:
        given = self.cleaned_data
        if given["budget"] and not may_open(request.user, "budget_save"):
            raise Invalid("/budget", NO_BUDGET)
        attempts, name = given["max_attempts"], given["agent"]
        if attempts is not None and not 1 <= attempts <= MAX_ATTEMPTS:
            raise Invalid("/max_attempts", f"Give a number from 1 to {MAX_ATTEMPTS}.")
        is_same = name in ("", row.sent_to.name)
        return {
            "payload": given["payload"],
            "agent": None if is_same else agents.get_by_name(name, project=row.project),
            "max_attempts": None if attempts == row.max_attempts else attempts,
            "not_before": given["not_before"],
            "budget": read_spec(read_budget(given["budget"])) if given["budget"] else None,
            "note": clean_note(given["note"]),
            "version": given["version"],
        }


def edit(request: HtmxRequest, task_id: UUID) -> HttpResponse:
    visit = begin_visit(request, current="tasks")
    row = require_row(detail_queries.find_task(task_id), "task", task_id)
    page = reverse("dashboard:task", args=[task_id]) + visit.scope.query
    posted = request.method == "POST"
    if not posted and not detail_queries.can_retry(row):
        messages.warning(request, "Nothing changed. This task can’t be retried now.")
        return redirect(page)
    text = format_payload(row.payload)
    terms = {"agent": row.sent_to.name, "max_attempts": row.max_attempts}
    form = RetryForm(
        request.POST if posted else None, initial={"payload": text} | terms, auto_id="retry-%s"
    )
    try:
        sent = form.send(request, row) if posted and form.is_valid() else None
    except Refusal as refusal:
        form.add_error("payload", f"Nothing changed. {refusal.detail}")
        sent = None
    if sent:
        messages.success(request, "The next attempt runs with these changes.")
        return redirect(reverse("dashboard:task", args=[sent]) + visit.scope.query)
    context = compose_page(
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
        agents=list_known_agents(row.project),
        zone=timezone.get_current_timezone_name(),
    )
    return respond(visit, "tasks/retry.html", "tasks/_retry.html", context)
