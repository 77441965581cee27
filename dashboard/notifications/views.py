"""The Notifications page: channels with their health, rules as sentences, quiet hours."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from dashboard.frame.access import may_open, takes_form
from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import (
    SETTINGS,
    HtmxRequest,
    PageContext,
    Visit,
    begin_visit,
    compose_page,
    live_page,
    respond,
)
from dashboard.lists.query_box import as_id
from dashboard.notifications import channel_form, delivery_queries, queries
from dashboard.notifications.channel_form import ChannelForm
from dashboard.notifications.preview import Preview
from dashboard.notifications.queries import ListedChannel, ListedRule
from dashboard.notifications.rule_form import (
    SEVERITIES,
    UNTIL,
    RuleForm,
    as_rule,
    empty_form,
    form_of,
    posted_form,
)
from dashboard.notifications.sentences import (
    Health,
    Part,
    describe_health,
    describe_rule,
    describe_test,
)
from ledger.database import server_time
from ledger.models import Agent, Project
from retries.models import Channel, NotificationRule
from retries.notifications import channels
from retries.notifications.digests import sending as digests
from retries.notifications.messages.wording import Message
from retries.notifications.services import kinds

TEMPLATE, PART = "notifications/index.html", "notifications/_notifications.html"
AGENTS_LISTED = 200


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """A row of the channels."""

    listed: ListedChannel
    icon: str
    recipient: str
    health: Health
    test: tuple[str, str] | None
    test_is_bad: bool
    events: str


@dataclass(frozen=True, slots=True)
class RuleEditor:
    """The form in place of a rule's sentence."""

    form: RuleForm
    row: NotificationRule | None
    rule: NotificationRule | None  # the form's rule, unless the form is invalid
    project: Project | None
    parts: list[Part]
    preview: Preview | None
    people_channels: list[Channel]
    agent_names: list[str]
    severities: tuple[tuple[str, str], ...] = SEVERITIES
    untils: tuple[tuple[str, str], ...] = UNTIL


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A rule as a sentence, or the form that edits it."""

    listed: ListedRule
    parts: list[Part]
    editor: RuleEditor | None


@dataclass(frozen=True, slots=True)
class QuietForm:
    """The form of a person's quiet hours, as stored or as typed."""

    starts: str = ""
    ends: str = ""
    timezone: str = "UTC"
    error: str = ""
    is_new: bool = False  # the browser fills in its own zone


@dataclass(frozen=True, slots=True)
class DigestPreview:
    """A channel's last digest, as it is or would be sent."""

    channel: Channel
    message: Message
    is_quiet: bool

    @classmethod
    def of(cls, channel: Channel, *, now: datetime) -> "DigestPreview":
        figures, message = digests.preview(channel, now=now)
        return cls(channel, message, figures.is_quiet)


def build_page(
    visit: Visit,
    *,
    editor: RuleEditor | None = None,
    channel: ChannelForm | None = None,
    edited_channel: Channel | None = None,
    secret: str = "",
    quiet: QuietForm | None = None,
    status_code: int = 200,
) -> PageContext:
    project, now, asks = visit.scope.project, visit.now, visit.request.GET
    may_edit = may_open(visit.request.user, "notification_rule")
    may_add = may_open(visit.request.user, "notification_channel")
    entries = [describe_channel(each) for each in queries.list_channels(project, now=now)]
    listed = queries.list_rules(project, now=now)
    if editor is None and may_edit and "edit" in asks:
        editor = open_editor(visit, asks["edit"], [each.row for each in listed])
    if channel is None and may_add and "channel" in asks and not secret:
        edited_channel = find_channel(asks["channel"], [each.listed.row for each in entries])
        zone = getattr(visit.request.user, "time_zone", "") or "UTC"
        channel = channel_form.form_of(edited_channel, project, asks.get("kind", ""), zone=zone)
    digest = None
    if may_add and "digest" in asks:
        shown = find_channel(asks["digest"], [each.listed.row for each in entries])
        digest = DigestPreview.of(shown, now=now) if shown and not shown.is_webhook else None
    edited = editor.row.pk if editor and editor.row else None
    rules = [
        RuleEntry(each, describe_rule(each.row), editor if each.row.pk == edited else None)
        for each in listed
    ]
    return compose_page(
        title="Notifications",
        crumbs=(SETTINGS,),
        status_code=status_code,
        channels=entries,
        failing=sum(each.listed.row.state == "failing" for each in entries),
        off=sum(not each.listed.row.is_on for each in entries),
        rules=rules,
        rules_on=sum(each.listed.row.enabled for each in rules),
        new_rule=editor if editor and editor.row is None else None,
        channel_form=channel,
        edited_channel=edited_channel,
        digest=digest,
        secret=secret,
        asked=read_question(visit) if may_edit else None,  # what to delete: a noun and its id
        open_escalations=0 if entries else queries.count_open_escalations(project),
        quiet=quiet or read_quiet_hours(visit),
        projects=list(visit.scope.projects),
    )


def read_quiet_hours(visit: Visit) -> QuietForm:
    row = queries.find_quiet_hours(visit.request.user)
    if row is None:
        return QuietForm(is_new=True)
    return QuietForm(f"{row.starts:%H:%M}", f"{row.ends:%H:%M}", row.timezone)


@live_page(TEMPLATE, PART, current="settings", read_key=delivery_queries.read_key)
def index(visit: Visit) -> PageContext:
    return build_page(visit)


def show(visit: Visit, **more: object) -> HttpResponse:
    page = build_page(visit, **more)  # type: ignore[arg-type]
    return respond(visit, TEMPLATE, PART, page)


def read_question(visit: Visit) -> tuple[str, str] | None:
    """Return the noun and the id that the address asks to delete, or None."""
    # A browser without scripts confirms a deletion on the page.
    noun, _, id = visit.request.GET.get("delete", "").partition(":")
    known = as_id(id)
    return (noun, str(known)) if noun in ("rule", "channel") and known else None


def describe_channel(listed: ListedChannel) -> ChannelEntry:
    test, recipient = listed.test, channels.describe_recipient(listed.row)
    return ChannelEntry(
        listed=listed,
        icon=kinds.kind_of(listed.row).icon,
        recipient=recipient,
        health=describe_health(listed.row),
        test=describe_test(test, recipient) if test else None,
        test_is_bad=bool(test and test.error),
        events=describe_events(listed),
    )


def describe_events(listed: ListedChannel) -> str:
    # A webhook is used by its filter, other channels by rules.
    if listed.row.is_webhook:
        return ", ".join(listed.row.events[:2]) or "all events"
    return f"{listed.rules} rule{'' if listed.rules == 1 else 's'}" if listed.rules else "no rule"


# ---- the form of a rule


def find_channel(text: str, listed: list[Channel]) -> Channel | None:
    id = as_id(text)
    return next((each for each in listed if each.pk == id), None) or queries.find_channel(id)


def open_editor(visit: Visit, text: str, listed: list[NotificationRule]) -> RuleEditor | None:
    id = as_id(text)
    rule = next((each for each in listed if each.pk == id), None) or queries.find_rule(id)
    if rule:
        return build_editor(visit, form_of(rule), rule.project, row=rule)
    if text == "new":
        project = visit.scope.project
        return build_editor(visit, empty_form(people_channels(project), project), project)
    return None


def build_editor(
    visit: Visit, form: RuleForm, project: Project | None, *, row: NotificationRule | None = None
) -> RuleEditor:
    checked, channels = RuleForm(form.values), people_channels(project)
    spec = checked.read(project, channels)
    form.errors = form.errors or (checked.errors if visit.request.method == "POST" else {})
    rule = as_rule(spec, project, now=visit.now) if spec else None
    names = Agent.objects.filter(project=project) if project else Agent.objects.all()
    return RuleEditor(
        form=form,
        row=row,
        rule=rule,
        project=project,
        parts=describe_rule(rule) if rule else [],
        preview=queries.preview_rule(rule, now=visit.now) if rule else None,
        people_channels=channels,
        agent_names=list(names.order_by("name").values_list("name", flat=True)[:AGENTS_LISTED]),
    )


def people_channels(project: Project | None) -> list[Channel]:
    rows = Channel.objects.reaching(project).exclude(kind="webhook")
    return list(rows.order_by("name"))


def read_project(visit: Visit, name: str) -> Project | None:
    """Return the project that the form names, or None for every project."""
    # Not everyone may act in every project.
    named = visit.scope.find_named(name)
    return visit.scope.project if named is None and visit.scope.is_limited else named


def read_editor(visit: Visit) -> RuleEditor:
    posted = visit.request.POST
    row = queries.find_rule(as_id(posted.get("rule", "")))
    project = row.project if row else read_project(visit, posted.get("project", ""))
    return build_editor(visit, posted_form(posted.dict()), project, row=row)


def preview(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    page = {"editor": read_editor(visit), "now": server_time.now(), "scope": visit.scope}
    return render(request, "notifications/_said.html", page)


@takes_form("notifications")
def check(request: HtmxRequest) -> HttpResponse:
    # This is what a script does without being asked.
    visit = begin_visit(request, current="settings")
    return show(visit, editor=read_editor(visit))


def find_rule_or_404(rule_id: UUID) -> NotificationRule:
    return require_row(queries.find_rule(rule_id), "notification rule", rule_id)


def back(visit: Visit) -> HttpResponse:
    return redirect(reverse("dashboard:notifications") + visit.scope.query)
