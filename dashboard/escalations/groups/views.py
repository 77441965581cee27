"""Answer all escalations of a pattern: the form, its review, and the start of the operation."""

from dataclasses import replace

from django.contrib import messages
from django.db.models import Q
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.escalations.groups.answer import GroupAnswer, build_group_answer, read_group
from dashboard.escalations.inbox import filters
from dashboard.escalations.inbox.address import read_address
from dashboard.frame.access import may_use
from dashboard.frame.rendering import Crumb, HtmxRequest, Visit, begin_visit, compose_page, respond
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.query_box import term
from ledger.errors import Refusal
from ledger.journal import stamp_of
from retries.models import Escalation, Operation
from retries.operations.starting import start_operation
from retries.states import Answer, EscalationState
from retries.verbs.escalations import ANSWER


def answer_all(request: HtmxRequest) -> HttpResponseBase:
    """Show a group's form, review the filled form, or start to send it."""
    visit = begin_visit(request, current="escalations")
    pattern, rows = read_group(visit)
    if pattern is None:
        messages.warning(request, "There is no such pattern. Choose a group in the inbox.")
        return redirect(reverse("dashboard:escalations") + visit.scope.query)
    asked = filters.parse(request.GET.get("q", ""))
    if problems := list_problems(asked, "escalations", visit.scope.project):
        messages.warning(request, f"Fix the filter first. {problems[0]} Nothing changed.")
        return redirect(reverse("dashboard:escalations") + read_address(visit).build())
    posted = request.POST if request.method == "POST" else None
    answer = build_group_answer(visit, pattern, rows, posted)
    if posted is None:
        return show(visit, answer)
    if problem := find_problem(answer):
        return show(visit, replace(answer, error=problem), status_code=422)
    # A valid form is reviewed before it is sent.
    if "confirmed" not in posted:
        return show(visit, replace(answer, is_review="edit" not in posted))
    try:
        operation = send(visit, answer)
    except Refusal as refusal:
        return show(visit, replace(answer, error=refusal.detail), status_code=409)
    if may_use(request, "operation"):
        return redirect(reverse("dashboard:operation", args=[operation.pk]) + visit.scope.query)
    messages.success(request, f"Answering {operation.total:,} escalations.")
    return redirect(reverse("dashboard:escalations") + answer.inbox_query)


def find_problem(answer: GroupAnswer) -> str:
    """Return why the answer cannot be sent, or an empty string."""
    if not answer.picked:
        return "Select at least one escalation. Nothing was sent."
    if answer.action == Answer.FIX and not answer.fix.strip():
        return "Write what the agents should do."
    return ""


def send(visit: Visit, answer: GroupAnswer) -> Operation:
    text = answer.fix if answer.action == Answer.FIX else ""
    asked = filters.parse(answer.address.q)
    # the result includes the ones that were answered in the meantime
    answered = Q(pk__in=answer.gone) & ~Q(state=EscalationState.OPEN)
    return start_operation(
        ANSWER.name,
        Escalation.objects.filter(Q(pk__in=answer.picked) | answered),
        options={"action": answer.action, "fix": text},
        query=asked.having("pattern", term("pattern", answer.pattern.fingerprint)),
        stamp=stamp_of(visit.request, visit.now),
    )


def show(visit: Visit, answer: GroupAnswer, *, status_code: int = 200) -> HttpResponse:
    title = f"Answer {len(answer.picked):,} escalations"
    page = compose_page(
        title=title,
        crumbs=(Crumb("Escalations", reverse("dashboard:escalations") + answer.inbox_query),),
        status_code=status_code,
        answer=answer,
    )
    return respond(visit, "escalations/answer_all.html", "escalations/_answer_all.html", page)
