"""The Notifications page: channels with health, rules as sentences, and what they would send."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, time, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dashboard.notifications import queries
from dashboard.notifications.preview import JournalEvent, simulate
from ledger.models import Agent, Project
from retries.models import Channel, Delivery, Escalation, NotificationRule, QuietHours
from retries.models.notification_channel import ChannelState, DisabledBecause
from retries.notifications import channels
from tests.dashboard.notifications.deliveries import (
    make_channel,
    make_delivery,
    make_notification_rule,
)
from tests.dashboard.seen import Part, html, key, said, words
from tests.factories import make_agent, pull, send, tick
from tests.retries.notifications.receivers import make_person_channel
from tests.retries.notifications.test_rules import escalate

URL = "/settings/notifications/"
HOSTILE = "<script>alert(1)</script>"
SLACK = {"kind": "person", "service": "Slack", "shown_address": "hooks.slack.com/…/B07F"}
RULE = {
    "conditions": "escalation",
    "project": "default",
    "until": "answered",
    "timezone": "Europe/Berlin",
    "only_on_change": "on",
    "breaks": "on",
}


class Receiver(BaseHTTPRequestHandler):
    """Accepts what comes, or answers as it was told."""

    status = 200

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(type(self).status)
        self.end_headers()
        self.wfile.write(b"<b>ok</b>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver(settings: Settings) -> Iterator[str]:
    Receiver.status = 200
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    settings.TENFOUR = settings.TENFOUR | {"WEBHOOK_ALLOW": (f"127.0.0.1:{port}",)}
    yield f"http://127.0.0.1:{port}/hooks"
    server.shutdown()
    server.server_close()


def test_channels_say_whether_they_work_and_rules_what_they_do(
    browser: Client, part: Part, agent: Agent, now: datetime
) -> None:
    project = agent.project
    empty = words(browser.get(URL))
    assert "No channel yet" in empty and "No rules yet" in empty
    assert "Add a channel first." in words(browser.get(URL, {"edit": "new"}))
    slack = make_channel("#oncall", project=project, now=now, succeeded_at=now, **SLACK)
    phone = make_channel(HOSTILE, project=project, now=now, **SLACK | {"service": "ntfy"})
    make_channel(
        "Ledger mirror",
        project=project,
        now=now,
        state=ChannelState.FAILING,
        failing_since=now,
        failures=14,
        last_error="503 Service Unavailable",
    )
    make_channel(
        "Old CI",
        project=project,
        now=now,
        state=ChannelState.DISABLED,
        disabled_at=now,
        disabled_because=DisabledBecause.GONE,
        events=["task.*"],
    )
    full = make_notification_rule(
        slack,
        now=now,
        agent=agent,
        severity="high",
        repeat_s=1800,
        cap_per_hour=10,
        quiet_from=time(22),
        quiet_until=time(7),
        timezone="Europe/Berlin",
        second_channel=phone,
        second_after_s=3600,
    )
    make_notification_rule(
        slack, now=now, project=None, conditions=["breaker", "plan"], enabled=False
    )
    make_delivery(slack, now=now, rule=full)
    response = browser.get(URL)
    text, raw = words(response), response.content.decode()
    assert "<script>alert" not in raw and "&lt;script&gt;alert" in raw
    assert "4, 1 failing, 1 off" in text and "1 on of 2" in text
    for each in (
        "Working",
        "Never tested",
        "Failing since",
        "Disabled: 410 Gone",
        "503 Service Unavailable: 14 failed tries.",
        "task.*",
        "all events",
        "1 sent in 7 d",
        "( dana )",
        "Turn on",
    ):
        assert each in text, each
    sentence = (
        "When an escalation opens in default for coder and it is high , tell #oncall ; "
        "repeat every 30 m until answered ; at most 10 an hour ; quiet 22:00–07:00 Europe/Berlin "
        "unless it is severe. After 1 h 00 m without a reaction also tell"
    )
    assert sentence in text, text
    assert "When an agent’s breaker opens or a plan is done or stuck in any project" in text
    since = key(response)
    assert part(URL, since=since).status_code == 204
    make_channel("New", project=project, now=now + timedelta(seconds=1))
    assert part(URL, since=since).status_code == 200


def test_a_rule_is_written_in_place_and_shows_what_it_would_have_sent(
    browser: Client, agent: Agent, now: datetime
) -> None:
    project = agent.project
    slack = make_channel("#oncall", project=project, now=now, **SLACK)
    phone = make_channel("phone", project=project, now=now, **SLACK)
    hook = make_channel("hook", project=project, now=now)
    for minutes in (52, 42):
        start = now - timedelta(minutes=minutes)
        send(agent, max_retries=0, on_failed="escalate", now=start)
        pull(agent, now=start)
        tick(start + timedelta(minutes=5))
    form = RULE | {"channel": str(slack.pk), "repeat": "15", "cap": "10"}
    shown = browser.post(f"{URL}rules/said/", form)
    text = words(shown)
    assert "tell #oncall ; repeat every 15 m until answered" in text
    assert "would have sent 7 messages : 2 new, 5 reminders." in text
    assert not NotificationRule.objects.exists()
    wrong = browser.post(f"{URL}rules/said/", form | {"agent": "nobody", "cap": "many"})
    assert "There is no agent “nobody” here." in words(wrong)
    for bad, why in (
        ({"channel": str(hook.pk)}, "A webhook has its own event filter"),
        ({"quiet_from": "99:00"}, "is not a time such as 22:00"),
        ({"timezone": "Mars/Base"}, "is not a time zone"),
        ({"second": str(slack.pk), "second_after": "60"}, "must not be the first"),
        ({"cap": "0"}, "from 1 to 1000"),
        ({"conditions": "nothing"}, "is not a condition"),
        ({"plan": "99-99"}, "There is no plan “99-99” here."),
    ):
        refused = browser.post(f"{URL}rules/?edit=new", form | bad)
        assert refused.status_code == 422 and why in html(refused, 422), bad
        assert 'value="15"' in html(refused, 422)
    assert "The rule is on." in said(browser, f"{URL}rules/", form)
    rule = NotificationRule.objects.get()
    assert (rule.repeat_s, rule.cap_per_hour, rule.project) == (900, 10, project)
    opened = html(browser.get(URL, {"edit": str(rule.pk)}))
    assert f'name="rule" value="{rule.pk}"' in opened and 'name="repeat" value="15"' in opened
    change = form | {"rule": str(rule.pk), "version": str(rule.version), "second": str(phone.pk)}
    change |= {"second_after": "60", "enabled": "yes"}
    assert "Rule saved." in said(browser, f"{URL}rules/", change)
    rule.refresh_from_db()
    assert (rule.second_channel, rule.second_after_s) == (phone, 3600)
    stale = browser.post(f"{URL}rules/?edit={rule.pk}", change)
    assert "Someone has changed it meanwhile." in html(stale, 422)
    page = said(browser, f"{URL}rules/{rule.pk}/off/", {})
    assert "The rule is off." in page
    asked = browser.post(f"{URL}rules/{rule.pk}/delete/", follow=True)
    assert "Delete this rule?" in words(asked) and NotificationRule.objects.exists()
    assert "Rule deleted." in said(browser, f"{URL}rules/{rule.pk}/delete/", {"confirmed": "yes"})
    assert not NotificationRule.objects.exists()


def test_a_preview_counts_caps_quiet_hours_and_the_second_channel(
    agent: Agent, now: datetime
) -> None:
    at = now.replace(hour=12, minute=0, second=0, microsecond=0)
    one, two = uuid4(), uuid4()

    def event(minutes: int, kind: str, subject: UUID) -> JournalEvent:
        return JournalEvent(at + timedelta(minutes=minutes), f"escalation.{kind}", subject)

    channel = make_channel(project=agent.project, now=now)
    rule = NotificationRule(conditions=["escalation"], channel=channel, only_on_change=True)
    events = [
        event(0, "opened", one),
        event(1, "opened", one),
        event(2, "opened", two),
        event(30, "assigned", one),
        event(50, "resolved", one),
    ]
    plain = simulate(rule, events, now=at + timedelta(hours=2))
    assert (plain.new, plain.updates, plain.reminders, plain.held) == (2, 1, 0, 0)
    rule.repeat_s, rule.second_channel, rule.second_after_s = 600, channel, 1200
    more = simulate(rule, events, now=at + timedelta(minutes=62))
    assert (more.reminders, more.parts) == (4 + 5, "2 new, 9 reminders, 1 update")
    assert more.second_at == [at + timedelta(minutes=20), at + timedelta(minutes=22)]
    rule.repeat_until = "taken"
    assert simulate(rule, events, now=at + timedelta(minutes=62)).reminders == 2 + 5
    rule.repeat_s, rule.cap_per_hour = None, 2
    capped = simulate(rule, events, now=at + timedelta(hours=2))
    # as in sending, a cap never holds an answer
    assert (capped.new, capped.updates, capped.held) == (2, 1, 0)
    rule.cap_per_hour, rule.repeat_s = 1, 600
    capped = simulate(rule, events, now=at + timedelta(minutes=59))
    assert (capped.new, capped.updates, capped.reminders, capped.held) == (1, 1, 0, 1)
    rule.repeat_s = None
    again = simulate(rule, [*events, event(60, "opened", one)], now=at + timedelta(hours=2))
    assert (again.new, again.held, again.summaries) == (2, 1, 1)
    rule.cap_per_hour, rule.quiet_from, rule.quiet_until = None, time(11), time(13)
    rule.timezone = "UTC"
    quiet = simulate(rule, events, now=at + timedelta(hours=2))
    assert (quiet.new, quiet.held, quiet.parts) == (0, 2, "1 summary of 2")
    severe = [replace(each, severity="high") if each.subject_id == one else each for each in events]
    rule.severe_breaks_quiet, rule.repeat_s = True, 600
    loud = simulate(rule, severe, now=at + timedelta(minutes=32))
    assert (loud.new, loud.updates, loud.reminders, loud.held) == (1, 1, 2, 1)
    rule.severe_breaks_quiet, rule.repeat_s = False, None
    assert simulate(rule, severe, now=at + timedelta(hours=2)).held == 2


def test_a_preview_lets_severe_escalations_through(agent: Agent) -> None:
    escalate(agent)
    channel = make_channel(project=agent.project, now=timezone.now())
    always = {"quiet_from": time(0), "quiet_until": time.max, "timezone": "UTC"}
    rule = make_notification_rule(channel, now=timezone.now(), **always)
    found = []
    for severity in ("normal", "high"):
        Escalation.objects.update(severity=severity)
        preview = queries.preview_rule(rule, now=timezone.now())
        found.append((preview.new, preview.held))
    assert found == [(0, 1), (1, 0)]


def test_a_channel_is_added_tested_and_switched(
    browser: Client, project: Project, now: datetime, receiver: str
) -> None:
    form = {"kind": "webhook", "project": "default", "name": "Mirror"}
    for url, why in (
        ("http://10.0.0.1/", "10.0.0.1"),
        ("gopher://example.com", "http"),
        ("", "Address is required."),
    ):
        refused = browser.post(f"{URL}channels/?channel=new", form | {"url": url})
        assert refused.status_code == 422 and why in html(refused, 422), url
    strange = {"kind": "other", "name": "x", "url": "nosuch://thing"}
    assert "is not a known scheme" in html(browser.post(f"{URL}channels/", strange), 422)
    made = browser.post(f"{URL}channels/", form | {"url": receiver, "events": "task.*"})
    secret = html(made).partition('id="signing-secret">')[2].partition("<")[0]
    assert secret.startswith("whsec_") and "data-live" not in html(made).partition("<main")[2]
    assert 'id="channel-form"' not in html(made)
    channel = Channel.objects.get()
    assert channel.events == ["task.*"] and secret not in html(browser.get(URL))
    act = f"{URL}channels/{channel.pk}/"
    assert html(browser.get(URL, {"channel": "new"})).count(" autofocus") == 1
    tested = words(browser.post(f"{act}test/", follow=True))
    assert "Webhook accepted the test in" in tested and "Working" in tested
    assert "Response 200. Look for it in http://127.0.0.1:" in tested
    assert "One test or example per channel and 10 s." in said(browser, f"{act}test/", {})
    assert "Mirror is off." in said(browser, f"{act}off/", {})
    Delivery.objects.update(created_at=now - timedelta(minutes=1))
    Receiver.status = 500
    assert "stays off: it did not accept the test." in said(browser, f"{act}on/", {})
    assert Channel.objects.get().state == ChannelState.DISABLED
    Delivery.objects.update(created_at=now - timedelta(minutes=1))
    Receiver.status = 200
    assert "Mirror is on." in said(browser, f"{act}on/", {})
    edit = html(browser.get(URL, {"channel": str(channel.pk)}))
    assert 'name="name" value="Mirror"' in edit and "New signing secret" in edit
    channel.refresh_from_db()
    renamed = {"channel": str(channel.pk), "kind": "webhook", "name": "Ledger mirror"}
    assert "Channel saved." in said(
        browser, f"{URL}channels/", renamed | {"version": str(channel.version)}
    )
    rotated = html(browser.post(f"{act}rotate/"))
    assert rotated.count("whsec_") == 1 and secret not in rotated
    asked = browser.post(f"{act}delete/", follow=True)
    assert "Delete this channel?" in words(asked)
    assert "is deleted." in said(browser, f"{act}delete/", {"confirmed": "yes"})
    assert not Channel.objects.exists()


MAIL = {
    "kind": "email",
    "project": "default",
    "name": "on-call mail",
    "to": "oncall@example.org, night@example.org",
    "server": "127.0.0.1",
    "security": "insecure",
    "user": "tenfour@example.com",
    "password": "p@ss/w:rd",
    "from": "tenfour@example.com",
}


def test_a_mail_channel_is_filled_in_by_fields(
    browser: Client, project: Project, now: datetime, receiver: str
) -> None:
    """The fields make the URL; the password is never shown, and stays if left empty (OPR-10)."""
    form = browser.get(URL, {"channel": "new"})
    assert 'aria-current="true"' in html(form) and "Mail server" in words(form)
    assert "App token" in words(browser.get(URL, {"channel": "new", "kind": "slack"}))
    path, port = f"{URL}channels/?channel=new", receiver.split(":")[2].split("/")[0]
    refused = browser.post(path, MAIL | {"port": "25"})
    assert "which is not a public address" in html(refused, 422)
    assert "p@ss" not in html(refused, 422) and 'value="127.0.0.1"' in html(refused, 422)
    wrong = html(browser.post(path, MAIL | {"to": "oncall"}), 422)
    assert "This is not valid. One or more, separated by commas" in wrong
    assert "Channel saved." in said(browser, path, MAIL | {"port": port})
    channel = Channel.objects.get()
    assert (channel.service, channel.kind) == ("Email", "person")
    edit = html(browser.get(URL, {"channel": str(channel.pk)}))
    assert 'value="tenfour@example.com"' in edit and "p@ss" not in edit and "p%40ss" not in edit
    assert "Leave it empty to keep it." in edit
    before = channels.address_of(channel)
    named = MAIL | {"channel": str(channel.pk), "port": port, "password": ""}
    change = named | {"version": str(channel.version), "to": "oncall@example.org"}
    assert "Channel saved." in said(browser, f"{URL}channels/", change)
    channel.refresh_from_db()
    both, one = quote(MAIL["to"], safe=""), quote("oncall@example.org", safe="")
    assert channels.address_of(channel) == before.replace(both, one)
    # the receiver speaks HTTP, so the test fails; it says whom it was for, and what to change
    tested = words(browser.post(f"{URL}channels/{channel.pk}/test/", follow=True))
    assert "The test failed" in tested and "oncall@example.org" in tested
    Delivery.objects.update(state="delivered", code=None, error="")
    tested = words(browser.get(URL))
    assert "Email accepted the test" in tested
    assert "Look for it in oncall@example.org." in tested and "200" not in tested
    delivery = Delivery.objects.get()
    opened = words(browser.get("/settings/deliveries/", {"open": str(delivery.pk)}))
    assert "Sent to oncall@example.org" in opened
    moved = change | {"version": str(channel.version), "server": "smtp.example.org"}
    assert "Enter it again" in html(browser.post(f"{URL}channels/", moved), 422)


def test_an_address_that_no_kind_covers_stays_as_it_is(browser: Client, project: Project) -> None:
    url = "ntfys://1.1.1.1/oncall?priority=high"
    channel = make_person_channel(url, project=project)
    edit = html(browser.get(URL, {"channel": str(channel.pk)}))
    assert 'name="kind" value="other"' in edit and "priority" not in edit
    form = {"channel": str(channel.pk), "name": "night", "version": str(channel.version)}
    assert "Channel saved." in said(browser, f"{URL}channels/", form)
    assert channels.address_of(Channel.objects.get()) == url


def test_without_a_channel_adding_one_is_the_next_step(browser: Client, now: datetime) -> None:
    """One primary button, and a sentence in place of a picture (OPR-27)."""

    def list_primary(page: str) -> list[str]:
        return re.findall(r'btn--primary[^>]*id="([\w-]+)"', page)

    empty = html(browser.get(URL)).partition("<main")[2]
    assert list_primary(empty) == ["add-channel"] and "empty__art" not in empty
    assert "Add a channel" in words(browser.get("/settings/deliveries/"))
    make_channel(now=now)
    assert list_primary(html(browser.get(URL)).partition("<main")[2]) == ["new-rule"]


def test_deliveries_are_sent_again(browser: Client, project: Project, now: datetime) -> None:
    channel = make_channel(project=project, now=now)
    rows = [make_delivery(channel, "gave_up", codes=(503,), now=now) for _ in range(3)]
    ids = [str(row.pk) for row in rows]
    again = "/settings/deliveries/redeliver/"
    assert "Select at least one" in said(browser, again, {})
    assert "1 delivery will be sent again." in said(browser, again, {"id": ids[0]})
    assert Delivery.objects.get(pk=ids[0]).state == "pending"
    span = {"to": str(channel.pk), "which": "undelivered"}
    wide = {"from": "2020-01-01T00:00", "until": "2100-01-01T00:00"}
    assert "is not a time such as" in said(browser, again, span | {"from": "x", "until": "y"})
    page = browser.post(again, span | wide, follow=True)
    assert "0 of 2 deliveries sent again" in words(page) and "2 waiting" in words(page)
    assert "They go on while this page is closed." in words(page)
    path = page.redirect_chain[-1][0]
    Delivery.objects.filter(pk=ids[1]).update(state="retrying")
    # without its address, too: it is still under way
    assert "1 of 2 deliveries sent again" in words(browser.get("/settings/deliveries/"))
    Delivery.objects.filter(pk=ids[1]).update(state="gave_up", next_try_at=None)
    Delivery.objects.filter(pk__in=(ids[0], ids[2])).update(state="delivered", next_try_at=None)
    result = words(browser.get(path))
    assert "1 of 2 deliveries arrived" in result and "1 delivered, 1 failed" in result
    assert 'id="redelivery"' not in html(browser.get("/settings/deliveries/"))
    messages = set(Delivery.objects.values_list("message_id", flat=True))
    assert messages == {row.message_id for row in rows}
    Channel.objects.update(state="disabled", disabled_at=now)
    assert "is disabled. Enable it first. Nothing was changed." in said(
        browser, again, {"id": ids[1]}
    )


def test_a_person_sets_quiet_hours(browser: Client, mara: User, project: Project) -> None:
    form = {"starts": "22:00", "ends": "07:00", "timezone": "America/New_York"}
    assert "Quiet hours saved." in said(browser, f"{URL}quiet-hours/", form)
    assert str(QuietHours.objects.get(user=mara)) == "22:00–07:00 America/New_York"
    assert 'name="starts" value="22:00"' in html(browser.get(URL))
    wrong = browser.post(f"{URL}quiet-hours/", form | {"timezone": "Mars"})
    assert "is not a time zone" in html(wrong, 422)
    assert "No quiet hours." in said(browser, f"{URL}quiet-hours/", {"starts": "", "ends": ""})
    assert not QuietHours.objects.exists()


def test_an_example_of_a_rule_is_sent_and_marked(
    browser: Client, project: Project, now: datetime, receiver: str
) -> None:
    """From the form of a rule that is not saved, and from the preview of a saved one."""
    ntfy = receiver.replace("http://", "ntfy://")
    channel = make_person_channel(ntfy, project=project)
    (rule,) = NotificationRule.objects.filter(conditions=["escalation"])
    count = NotificationRule.objects.count()
    form = {"project": "default", "conditions": "escalation", "channel": str(channel.pk)}
    path = f"{URL}rules/example/"
    page = browser.post(f"{path}?edit=new", form)
    assert "on-call accepted the example in" in words(page) and "Save rule" in words(page)
    (sent,) = Delivery.objects.all()
    assert (sent.role, sent.state) == ("test", "delivered")
    assert sent.body["subject"].startswith("Example: [default] Needs you:")
    assert NotificationRule.objects.count() == count
    assert "One test or example" in words(browser.post(f"{path}?edit=new", form))
    saved = f"{URL}rules/{rule.pk}/example/"
    assert "One test or example" in said(browser, saved, {})
    Delivery.objects.update(created_at=now - timedelta(minutes=1))
    Receiver.status = 403
    assert "on-call did not take it: HTTP 403" in said(browser, saved, {})
    Channel.objects.update(state="disabled", disabled_at=now)
    assert "on-call is off. Turn it on first." in said(browser, saved, {})
    assert browser.post(path, form | {"repeat": "x"}).status_code == 422


def test_messages_are_shown_before_one_is_sent(browser: Client, now: datetime) -> None:
    agent = make_agent()
    slack = make_channel("#oncall", project=agent.project, now=now, **SLACK)
    rule = make_notification_rule(slack, now=now, repeat_s=1800, cap_per_hour=10)
    text = words(browser.get(f"{URL}rules/{rule.pk}/preview/"))
    for each in (
        "Needs you: Store rendered",
        "Still open",
        "Answered:",
        "4 held back",
        "tenfour esc",
    ):
        assert each in text, each
    for name in ("breaker", "agent_silent", "plan", "channel_stopped", "task.completed"):
        NotificationRule.objects.update(conditions=[name])
        assert browser.get(f"{URL}rules/{rule.pk}/preview/").status_code == 200, name
    assert browser.get(f"{URL}rules/{uuid4()}/preview/").status_code == 404
    assert json.dumps(rule.conditions)
