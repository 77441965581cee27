"""Answer an escalation, undo an answer, preview one, comment, assign, snooze."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers

from dashboard.actions import post_once
from dashboard.escalations import queries
from dashboard.escalations.answer_form import (
    Reply,
    compose_message,
    read_message,
    submit_answer,
    undo_answer,
)
from dashboard.escalations.evidence import preview_context
from dashboard.escalations.inbox.address import read_address
from dashboard.escalations.inbox.page import find_next
from dashboard.escalations.outcome import confirm_answer
from dashboard.escalations.panel import build_form, describe_answer, warn_of_secret
from dashboard.escalations.presence import note_typing
from dashboard.escalations.snooze_times import read_snooze_time
from dashboard.escalations.views import (
    PART,
    TEMPLATE,
    build_page,
    escalation_url,
    find_decision,
    read_key,
)
from dashboard.form_values import quote_typed
from dashboard.frame import rendering
from dashboard.frame.rendering import HtmxRequest, Visit, begin_visit
from dashboard.frame.toasts import add_message
from ledger.database import server_time
from ledger.errors import Refusal
from ledger.journal import Stamp, stamp_of
from retries.escalations import assignment, snoozing
from retries.escalations.record import Record, load_record
from retries.models import Escalation, EscalationQuerySet


def answer(request: HtmxRequest, escalation_id: UUID) -> HttpResponseBase:
    return change(request, escalation_id, submit_answer)


def undo(request: HtmxRequest, escalation_id: UUID) -> HttpResponseBase:
    # An answer can be undone only while its task has not continued.
    return change(request, escalation_id, undo_answer)


def preview(request: HtmxRequest, escalation_id: UUID) -> HttpResponse:
    """Return the next attempt's context with the message as typed so far."""
    # The answer also has the warning about a secret in the message. Without a task, it has nothing
    # else.
    escalation = queries.find_escalation(escalation_id, None, now=server_time.now())
    if escalation is None or not escalation.is_open:
        return HttpResponse(status=204)
    message = compose_message(request, escalation)
    note_typing(escalation_id, request.user.get_username(), message, now=server_time.now())
    context: dict[str, Any] = {"warning": warn_of_secret(escalation, message), "swapped": True}
    if escalation.task is None:  # an instruction, or a permission request
        return render(request, "escalations/_secret.html", context)
    context["preview"] = preview_context(escalation, Record(escalation.task), message)
    return render(request, "escalations/_typed.html", context)


def comment(request: HtmxRequest, escalation_id: UUID) -> HttpResponse:
    text = request.POST.get("text", "").replace("\0", "")

    def record(*, among: EscalationQuerySet, stamp: Stamp) -> None:
        def write() -> None:
            assignment.comment(escalation_id, text, among=among, stamp=stamp)

        post_once(request, write, stamp=stamp)

    return annotate(request, escalation_id, record, typed=text)


def assign(request: HtmxRequest, escalation_id: UUID) -> HttpResponse:
    # A form without a name assigns to the signed-in person, and an empty name to no one.
    name = request.POST.get("user", request.user.get_username()).replace("\0", "")
    return annotate(request, escalation_id, partial(assignment.assign, escalation_id, name or None))


def snooze(request: HtmxRequest, escalation_id: UUID) -> HttpResponse:
    """Snooze an escalation until a time, or end its snooze; open the next one."""
    visit = begin_visit(request, current="escalations")
    address = read_address(visit)
    url = escalation_url(escalation_id, address.build())
    following = find_next(visit, address, escalation_id)
    try:
        # the button in a message has only a URL
        given = request.POST if "until" in request.POST else request.GET
        until = read_snooze_time(given, visit.now)
        snoozing.snooze(
            escalation_id, until, among=Escalation.objects.all(), stamp=stamp_of(request, visit.now)
        )
    except Refusal as refusal:
        messages.warning(request, refusal.detail)
        return redirect(url)
    if until is None:
        messages.success(request, "Back in the inbox.")
        return redirect(url)
    at = timezone.localtime(until)
    undo = reverse("dashboard:escalation_snooze", args=[escalation_id])
    add_message(
        request,
        f"Snoozed until {at:%b %-d, %H:%M %Z}. Its task keeps waiting.",
        undo=undo + address.build(until="now"),
    )
    page = reverse("dashboard:escalations")
    return redirect(
        escalation_url(following, address.build()) if following else page + address.build()
    )


def annotate(
    request: HtmxRequest, escalation_id: UUID, record: Callable[..., object], *, typed: str = ""
) -> HttpResponse:
    try:
        record(among=Escalation.objects.all(), stamp=stamp_of(request))
    except Refusal as refusal:
        messages.warning(request, refusal.detail + quote_typed(typed))
    query = read_address(begin_visit(request, current="escalations")).build()
    return redirect(escalation_url(escalation_id, query))


def change(
    request: HtmxRequest, escalation_id: UUID, submit: Callable[..., Reply]
) -> HttpResponseBase:
    """Submit the form; then open the next escalation, or show the panel or the page."""
    visit = begin_visit(request, current="escalations")
    address = read_address(visit)
    query = address.build()
    if request.method != "POST":  # the way back from signing in
        return redirect(escalation_url(escalation_id, query))
    before = queries.find_escalation(escalation_id, visit.scope.project, now=visit.now)
    following = find_next(visit, address, escalation_id) if before else None
    reply = submit(request, before, now=visit.now) if before else Reply(404, read_message(request))
    # The form has changed the escalation.
    escalation = queries.find_escalation(escalation_id, visit.scope.project, now=visit.now)
    if reply.is_done and escalation and following and not reply.message:
        return open_next(request, escalation, escalation_url(following, query))
    if rendering.wants_part(request):
        return render_panel(visit, escalation, reply, following)
    if reply.is_done and escalation:
        messages.success(request, confirm_answer(escalation))
        return redirect(escalation_url(escalation_id, query))
    visit = replace(visit, live_key=read_key(visit.now))
    page = build_page(
        visit, escalation, requested=escalation_id, reply=reply, status_code=reply.status
    )
    return rendering.respond(visit, TEMPLATE, PART, page)


def open_next(request: HtmxRequest, answered: Escalation, url: str) -> HttpResponse:
    # The next page offers to undo this answer.
    if answered.undo_until:
        url += f"{'&' if '?' in url else '?'}answered={answered.pk}"
    else:
        messages.success(request, confirm_answer(answered))
    if rendering.wants_part(request):
        return HttpResponse(headers={"HX-Redirect": url})
    return redirect(url)


def render_panel(
    visit: Visit, escalation: Escalation | None, reply: Reply, following: UUID | None
) -> HttpResponse:
    context = {"scope": visit.scope, "now": visit.now, "reply": reply, "escalation": escalation}
    template = "escalations/_vanished.html"
    if escalation:
        template = "escalations/_panel.html"
        record = load_record(escalation)
        context |= {"row": escalation.instruction, "task": escalation.task}
        if decision := find_decision(escalation, reply, visit):
            context["decision"] = decision
        elif escalation.is_open:
            context["answer_form"] = build_form(escalation, record, reply)
        else:
            context["answer"] = describe_answer(escalation, reply, now=visit.now)
        context["next_open"] = queries.find_listed(following) if following else None
    context["query"] = read_address(visit).build()
    response = render(visit.request, template, context, status=reply.status)
    patch_vary_headers(response, ["HX-Request"])
    # The header makes the rest of the page poll.
    response["HX-Trigger"] = "ledger-changed"
    return response
