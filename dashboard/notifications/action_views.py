"""Save, switch, test and delete channels and rules, and set a person's quiet hours."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.form_values import read_clock_time, read_whole_number
from dashboard.frame.access import takes_form
from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import HtmxRequest, Visit, begin_visit
from dashboard.frame.toasts import add_message
from dashboard.lists.query_box import as_id
from dashboard.notifications import channel_form, queries, views
from dashboard.notifications.rule_form import RuleForm, posted_form
from ledger.errors import Invalid, RateLimited, Refusal, VersionMismatch
from ledger.journal import stamp_of
from ledger.models import Project
from retries.models import Channel, NotificationRule
from retries.models.notification_channel import DisabledBecause
from retries.notifications import channels
from retries.notifications.deliveries import trials
from retries.notifications.digests import sending as digests
from retries.notifications.rules import editing as rules

QUIET_FIELDS = ("starts", "ends", "timezone")
CHANGED_MEANWHILE = "Someone has changed it meanwhile. Look at it again, then save."


# ---- rules


@takes_form("notifications")
def save_rule(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    form = posted_form(request.POST.dict())
    text = request.POST.get("rule", "")
    row = queries.find_rule(as_id(text)) if text else None
    if text and row is None:
        raise Http404("There is no such notification rule.")
    project = row.project if row else views.read_project(visit, request.POST.get("project", ""))
    try:
        saved = write_rule(form, row, project, visit)
    except VersionMismatch:
        form.errors["form"] = CHANGED_MEANWHILE
        saved = False
    if not saved:
        editor = views.build_editor(visit, form, project, row=row)
        return views.show(visit, editor=editor, status_code=422)
    messages.success(request, "Rule saved." if row else "The rule is on.")
    return views.back(visit)


def write_rule(
    form: RuleForm, row: NotificationRule | None, project: Project | None, visit: Visit
) -> bool:
    spec = form.read(project)
    if spec is None:
        return False
    if row is None:
        rules.create_rule(spec, project=project, stamp=stamp_of(visit.request))
        return True
    rules.update_rule(
        row.pk,
        version=read_whole_number(form.values.get("version", "")),
        stamp=stamp_of(visit.request),
        **{name: getattr(spec, name) for name in spec.__slots__},
    )
    return True


def act_on_rule(request: HtmxRequest, rule_id: UUID, verb: str) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    views.find_rule_or_404(rule_id)
    if verb in ("on", "off"):
        rules.update_rule(rule_id, version=None, stamp=stamp_of(request), enabled=verb == "on")
        other = "off" if verb == "on" else "on"
        undo = reverse("dashboard:notification_rule_act", args=[rule_id, other])
        said = "The rule is on." if verb == "on" else "The rule is off. It sends nothing."
        add_message(request, said, undo=undo + visit.scope.query)
    elif verb == "delete" and "confirmed" in request.POST:
        rules.delete_rule(rule_id, stamp=stamp_of(request))
        messages.success(request, "Rule deleted. What it sent stays in the deliveries.")
    elif verb == "delete":
        return confirm_deletion(visit, "rule", rule_id)
    else:
        raise Http404(f"There is no action “{verb}”.")
    return views.back(visit)


def confirm_deletion(visit: Visit, noun: str, id: UUID) -> HttpResponse:
    query = visit.scope.params.copy()
    query["delete"] = f"{noun}:{id}"
    return redirect(f"{reverse('dashboard:notifications')}?{query.urlencode()}")


# ---- channels


@takes_form("notifications")
def save_channel(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    text = request.POST.get("channel", "")
    row = queries.find_channel(as_id(text)) if text else None
    if text and row is None:
        raise Http404("There is no such channel.")
    project = row.project if row else views.read_project(visit, request.POST.get("project", ""))
    form = channel_form.posted_form(request.POST.dict(), project, row)
    try:
        secret = write_channel(form, row, visit)
    except Invalid as refusal:
        form.note(refusal)
    except VersionMismatch:
        form.errors["form"] = CHANGED_MEANWHILE
    else:
        if secret:  # a webhook's secret is shown once, on this answer only
            return views.show(visit, secret=secret)
        messages.success(request, "Channel saved. Send a test to see that it works.")
        return views.back(visit)
    return views.show(visit, channel=form, edited_channel=row, status_code=422)


def write_channel(form: channel_form.ChannelForm, row: Channel | None, visit: Visit) -> str:
    """Store a channel; return the signing secret of a new webhook, else an empty string."""
    stamp = stamp_of(visit.request)
    if row is None:
        return channels.create_channel(form.read_new(), project=form.project, stamp=stamp).secret
    version = read_whole_number(form.values.get("version", ""))
    changes: dict[str, Any] = form.read()
    channels.update_channel(row.pk, version=version, stamp=stamp, **changes)
    return ""


@takes_form("notifications")
def act_on_channel(request: HtmxRequest, channel_id: UUID, verb: str) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    channel = require_row(queries.find_channel(channel_id), "channel", channel_id)
    stamp = stamp_of(request)
    try:
        if verb == "test":
            send_test(visit, channel)
        elif verb == "digest":
            send_digest(visit, channel)
        elif verb == "on":
            turn_on(visit, channel)
        elif verb == "off":
            channels.disable_channel(channel_id, DisabledBecause.BY_HAND, stamp=stamp)
            messages.success(request, f"{channel.name} is off. Nothing is sent to it.")
        elif verb == "rotate":
            _, secret = channels.rotate_secret(channel_id, stamp=stamp)
            # A webhook's new secret is shown once, on this answer only.
            return views.show(visit, secret=secret)
        elif verb == "delete" and "confirmed" in request.POST:
            channels.delete_channel(channel_id, stamp=stamp)
            messages.success(request, f"{channel.name} is deleted.")
        elif verb == "delete":
            return confirm_deletion(visit, "channel", channel_id)
        else:
            raise Http404(f"There is no action “{verb}”.")
    except Refusal as refusal:
        messages.warning(request, refusal.detail)
    return views.back(visit)


def send_test(visit: Visit, channel: Channel) -> bool:
    """Send a test unless one was sent just now; return whether the receiver accepted it."""
    try:
        _, answer = trials.send_test(
            channel, pause=queries.TEST_PAUSE, stamp=stamp_of(visit.request)
        )
    except RateLimited as refusal:
        messages.warning(visit.request, refusal.detail)
        return False
    return answer.succeeded


def send_digest(visit: Visit, channel: Channel) -> None:
    if channel.is_webhook or not channel.is_on:
        raise Invalid("/id", "Only a channel for people that is on gets a digest.")
    stamp = stamp_of(visit.request)
    _, message = digests.preview(channel, now=stamp.at)
    _, answer = trials.send_example(channel, message, pause=queries.TEST_PAUSE, stamp=stamp)
    if answer.succeeded:
        messages.success(visit.request, f"{channel.name} accepted the digest as an example.")
    else:
        messages.warning(visit.request, f"{channel.name} did not take it: {answer.error}")


def turn_on(visit: Visit, channel: Channel) -> None:
    stamp = stamp_of(visit.request)
    if send_test(visit, channels.enable_channel(channel.pk, stamp=stamp)):
        messages.success(visit.request, f"{channel.name} is on.")
        return
    channels.disable_channel(channel.pk, DisabledBecause.BY_HAND, stamp=stamp)
    messages.warning(visit.request, f"{channel.name} stays off: it did not accept the test.")


# ---- a person's own quiet hours


@takes_form("notifications")
def save_quiet_hours(request: HtmxRequest) -> HttpResponse:
    # Empty times mean that the person's channels are never quiet.
    visit = begin_visit(request, current="settings")
    assert isinstance(request.user, User)
    starts_at, ends_at, zone = (request.POST.get(name, "").strip() for name in QUIET_FIELDS)
    form = views.QuietForm(starts_at, ends_at, zone)
    try:
        starts, ends = read_clock_time(form.starts), read_clock_time(form.ends)
        if (starts is None) != (ends is None):
            raise ValueError("Give both times, or none for no quiet hours.")
        rules.set_quiet_hours(request.user, starts=starts, ends=ends, timezone=zone or "UTC")
    except (ValueError, Invalid) as error:
        said = error.detail if isinstance(error, Invalid) else str(error)
        return views.show(visit, quiet=replace(form, error=said), status_code=422)
    messages.success(request, "Quiet hours saved." if starts and ends else "No quiet hours.")
    return views.back(visit)
