"""Rules: who is told of what, once, later, again, or in a summary."""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ledger import accounts, journal
from ledger.agents import pause
from ledger.errors import Invalid, RateLimited
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Event, Task
from ledger.values.account_windows import LimitWindow
from ledger.values.timestamps import format_timestamp
from retries.escalations import answering, assignment, lifecycle, snoozing
from retries.escalations.choices import Choice
from retries.models import (
    Channel,
    Delivery,
    Escalation,
    NotificationRule,
    NotificationThread,
    QuietHours,
)
from retries.notifications import channels, outbox, tick
from retries.notifications.deliveries import trials
from retries.notifications.rules import editing as rules
from retries.notifications.rules import watches
from retries.notifications.rules.conditions import DEFAULTS
from retries.notifications.rules.editing import NotificationRuleSpec
from retries.plans import completing
from retries.states import Answer
from retries.tasks import actions as task_actions
from tests.dashboard.limits.shares import HOUR, note_share
from tests.dashboard.worked import make_plan
from tests.elsewhere import blocked
from tests.factories import make_agent, make_project, send
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.notifications.receivers import (
    MARA,
    Receiver,
    escalate,
    make_person_channel,
    ntfy,
    run_clock,
    told,
)
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def set_rule(**changes: Any) -> None:
    for rule in NotificationRule.objects.filter(conditions=["escalation"]):
        rules.update_rule(rule.pk, version=None, stamp=Stamp(MARA), **changes)


def snooze(asked: Escalation, until: datetime | None) -> None:
    snoozing.snooze(asked.pk, until, among=Escalation.objects.all(), stamp=Stamp(MARA))


def age(seconds: int) -> None:
    """Let all threads have begun some time ago."""
    for thread in NotificationThread.objects.all():
        for name in ("opened_at", "repeat_at", "second_at"):
            at: datetime | None = getattr(thread, name)
            if at:
                setattr(thread, name, at - timedelta(seconds=seconds))
        thread.save()


def test_one_escalation_is_one_thread_from_question_to_answer(receiver: Receiver) -> None:
    """Told once, reminded until someone takes it, then the second channel, then the answer."""
    project, agent = make_project(), make_agent()
    first = make_person_channel(ntfy(receiver), project=project)
    phone = make_person_channel(ntfy(receiver, "phone"), project=project, name="phone")
    # the first channel brought the rules that a new project wants; the second brings none
    defaults = NotificationRule.objects.filter(channel=first)
    assert sorted(rule.conditions[0] for rule in defaults) == [
        "agent_silent",
        "breaker",
        "escalation",
        "plan",
    ]
    assert not NotificationRule.objects.filter(channel=phone).exists()
    set_rule(repeat_s=600, repeat_until="taken", second_channel=phone, second_after_s=3600)
    asked = escalate(agent)
    run_clock()
    run_clock()
    assert told(receiver) == [
        ("oncall", "[default] Needs you: Rename the column (coder, failed 1 of 1)")
    ]
    (message,) = Delivery.objects.filter(role="new").values_list("body", flat=True)
    assert f"/escalations/{asked.pk}/" in message["text"] and "secret text" not in message["text"]
    assert f'tenfour esc resolve {str(asked.pk)[-8:]} "fix: …"' in message["text"]
    age(700)
    run_clock()
    run_clock()
    assert [topic for topic, _ in told(receiver)] == ["oncall"]
    snooze(asked, timezone.now() + timedelta(minutes=30))
    age(3000)
    run_clock()
    assert told(receiver) == [], "no one is told of what a person has snoozed"
    snooze(asked, None)
    age(3000)
    run_clock()
    assert sorted(topic for topic, _ in told(receiver)) == ["oncall", "phone"]
    User.objects.create(username="mara", is_staff=True, is_superuser=True)
    assignment.assign(asked.pk, "mara", among=Escalation.objects.all(), stamp=Stamp(MARA))
    run_clock()
    assert sorted(topic for topic, title in told(receiver) if "Taken" in title) == [
        "oncall",
        "phone",
    ]
    age(100_000)
    run_clock()
    assert told(receiver) == []
    answering.answer(
        asked.pk,
        Choice(Answer.RETRY),
        channel="api",
        among=Escalation.objects.all(),
        stamp=Stamp(MARA),
    )
    run_clock()
    assert sorted(told(receiver)) == [
        ("oncall", "[default] Answered: Rename the column (coder, failed 1 of 1)"),
        ("phone", "[default] Answered: Rename the column (coder, failed 1 of 1)"),
    ]
    thread = NotificationThread.objects.get()
    assert not thread.is_open and thread.repeat_at is None
    bodies = Delivery.objects.filter(thread=thread).values_list("body", flat=True)
    assert {body["thread"] for body in bodies} == {str(thread.pk)}


def test_a_storm_becomes_a_summary(receiver: Receiver) -> None:
    """Over the cap one message tells the rest; what a person answered meanwhile is counted."""
    project, agent = make_project(), make_agent()
    make_person_channel(ntfy(receiver), project=project)
    set_rule(cap_per_hour=3)
    asked = [escalate(agent, f"Task {n}") for n in range(8)]
    run_clock()
    assert len(told(receiver)) == 3
    with transaction.atomic():
        lifecycle.withdraw([asked[7].task_id], stamp=Stamp(SYSTEM))
    run_clock()
    assert told(receiver) == []
    assert Delivery.objects.filter(state="held").count() == 5
    Delivery.objects.filter(state="held").update(held_until=timezone.now())
    run_clock()
    (summary,) = told(receiver)
    assert summary == ("oncall", "[default] 5 held back: 5 new escalations")
    text = Delivery.objects.get(role="summary").body["text"]
    assert (
        "Held back: the rule sends 3 an hour." in text
        and "1 of them needs nothing any more." in text
    )
    assert Delivery.objects.filter(state="summarized", summary__role="summary").count() == 5
    run_clock()
    assert told(receiver) == []


def test_quiet_hours_have_one_zone() -> None:
    mara = User.objects.create_user("mara")
    zoned = time(22, tzinfo=UTC)
    with pytest.raises(Invalid, match="its zone as timezone"):
        rules.set_quiet_hours(mara, starts=zoned, ends=time(7))
    assert not QuietHours.objects.exists()


def test_quiet_hours_hold_all_but_severe(receiver: Receiver) -> None:
    """A person's channel stays quiet; a severe question comes through; the rest arrives as one."""
    project, agent = make_project(), make_agent()
    mara = User.objects.create(username="mara")
    make_person_channel(ntfy(receiver), project=project, person=mara)
    set_rule(cap_per_hour=None)
    now = timezone.now().astimezone(UTC)
    starts, ends = ((now + timedelta(hours=n)).time() for n in (-1, 1))
    rules.set_quiet_hours(mara, starts=starts, ends=ends, timezone="UTC")
    escalate(agent)
    severe = escalate(agent, "Severe")
    Escalation.objects.filter(pk=severe.pk).update(severity="high")
    run_clock()
    assert [title for _, title in told(receiver)] == [
        "[default] Needs you: Severe (coder, failed 1 of 1)"
    ]
    held = Delivery.objects.get(state="held")
    assert held.held_until and held.held_until.time() == ends
    rules.set_quiet_hours(mara, starts=None, ends=None)
    Delivery.objects.filter(state="held").update(held_until=timezone.now())
    run_clock()
    assert [title for _, title in told(receiver)] == ["[default] 1 held back: 1 new escalations"]


def test_only_changes_are_told(receiver: Receiver) -> None:
    """A breaker that opens again and again, a silent agent, a stuck plan: one message each."""
    project, agent = make_project(), make_agent()
    make_person_channel(ntfy(receiver), project=project)

    def breaker(kind: Kind) -> None:
        journal.record(
            kind,
            subject_type="agent",
            subject_id=agent.id,
            agent_id=agent.id,
            project_id=project.id,
            stamp=Stamp(SYSTEM),
            data={"failures": 5},
        )

    for kind in (
        Kind.AGENT_BREAKER_OPENED,
        Kind.AGENT_BREAKER_HALF_OPEN,
        Kind.AGENT_BREAKER_OPENED,
    ):
        breaker(kind)
        run_clock()
    assert told(receiver) == [("oncall", "[default] Breaker open: coder")]
    breaker(Kind.AGENT_BREAKER_CLOSED)
    run_clock()
    breaker(Kind.AGENT_BREAKER_OPENED)
    run_clock()
    assert [title for _, title in told(receiver)] == [
        "[default] Breaker closed: coder",
        "[default] Breaker open: coder",
    ]
    send(agent, now=timezone.now() - timedelta(hours=1))
    for _ in range(3):
        watches.watch_conditions(now=timezone.now())
        run_clock()
    assert [title for _, title in told(receiver)] == ["[default] Silent: coder"]
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=timezone.now())
    watches.watch_conditions(now=timezone.now())
    run_clock()
    assert [title for _, title in told(receiver)] == ["[default] Back: coder"]
    assert Event.objects.filter(kind="agent.silent").count() == 1


def test_an_account_at_its_limit_is_told_once_and_that_it_has_room_again(
    receiver: Receiver,
) -> None:
    """However many agents and windows it has; a rule has to ask for it."""
    project, agent, now = make_project(), make_agent(), timezone.now()
    second = make_agent("second")
    accounts.set_account([second], account="coder", stamp=Stamp(SYSTEM, now))
    make_person_channel(ntfy(receiver), project=project)
    reset = note_share(agent, 1.0, facts=1, now=now)
    for _ in range(2):
        watches.watch_conditions(now=now)
        run_clock()
    assert told(receiver) == []
    set_rule(conditions=["account_limit"])
    later = note_share(second, 1.0, window=LimitWindow.WEEK, resets_in=3 * HOUR, facts=1, now=now)
    watches.watch_conditions(now=reset)
    assert Event.objects.filter(kind__startswith="limit.").count() == 1
    watches.watch_conditions(now=later)
    run_clock()
    assert told(receiver) == []  # it was not told that the limit was reached
    again = note_share(agent, 1.0, facts=1, now=later)
    for at in (later, later, again):
        watches.watch_conditions(now=at)
        run_clock()
    assert [title for _, title in told(receiver)] == [
        "[default] At its limit: coder",
        "[default] Has room again: coder",
    ]
    first, last = Event.objects.filter(kind__startswith="limit.").order_by("id")[2:]
    assert first.data == {"name": "coder", "until": format_timestamp(again)}
    assert (last.kind, last.data, last.subject_id) == (
        "limit.ended",
        {"name": "coder"},
        first.subject_id,
    )
    texts = [each.body["text"] for each in Delivery.objects.order_by("id")]
    assert f"until {again:%Y-%m-%d %H:%M} UTC" in texts[0] and "/limits/" in texts[0]


def test_files_outside_of_a_task_are_told(receiver: Receiver) -> None:
    project, agent = make_project(), make_agent()
    make_person_channel(ntfy(receiver), project=project)
    set_rule(conditions=["files_outside"])
    make_task(agent, payload={"files": ["src/"]}, title="Rename it")
    changed = tuple({"path": path} for path in ("src/a.py", "lib/b.py"))
    fail(agent, attempt_of(claim(agent)), now=timezone.now(), files_modified=changed)
    run_clock()
    assert [title for _, title in told(receiver)] == [
        "[default] Changed other files: Rename it (coder)"
    ]
    text = Delivery.objects.get().body["text"]
    assert "coder changed 1 file outside of the task's files." in text and "lib/b" not in text


def test_a_plan_that_is_stuck_or_done_is_told(receiver: Receiver) -> None:
    """Stuck when the only task that could run failed for good; done when a person skips on."""
    project, agent = make_project(), make_agent()
    make_person_channel(ntfy(receiver), project=project)
    now = timezone.now()
    _, (first, second) = make_plan("03-01", [("One", []), ("Two", [1])], agent=agent, now=now)
    watches.watch_conditions(now=now)
    run_clock()
    assert told(receiver) == []
    Task.objects.filter(pk=first).update(on_exhausted="dead_letter")
    fail(agent, attempt_of(claim(agent, now=now)), now=now, type="verification_failed")
    for _ in range(2):
        watches.watch_conditions(now=now)
        run_clock()
    assert [title for _, title in told(receiver)] == ["[default] Plan stuck: 03-01"]
    task_actions.skip([second], stamp=Stamp(MARA))
    completing.complete_plans(now=timezone.now())
    watches.watch_conditions(now=timezone.now())
    run_clock()
    assert [title for _, title in told(receiver)] == ["[default] Plan done: 03-01"]


def test_a_rule_is_for_its_project_agent_and_severity(receiver: Receiver) -> None:
    """What a rule is not for is not told; a channel that stops is told to others only."""
    project, agent = make_project(), make_agent()
    channel = make_person_channel(ntfy(receiver), project=project)
    other = make_person_channel(ntfy(receiver, "other"), project=project, name="other")
    set_rule(agent=make_agent("reviewer"))
    escalate(agent)
    set_rule(agent=None, severity="high")
    escalate(agent)
    run_clock()
    assert told(receiver) == []
    for each in (channel, other):
        spec = NotificationRuleSpec(conditions=("channel_stopped",), channel=each)
        rules.create_rule(spec, project=project, stamp=Stamp(MARA))
    set_rule(severity="")
    receiver.answer = 500
    escalate(agent)
    run_clock()
    Delivery.objects.filter(state="retrying").update(tries=9, next_try_at=timezone.now())
    run_clock()
    assert Channel.objects.get(pk=channel.pk).state == "disabled"
    receiver.answer = 200
    told(receiver)
    for _ in range(5):
        run_clock()
    assert told(receiver) == [("other", "[default] Channel stopped: on-call")]
    assert not Delivery.objects.filter(channel=channel, kind="webhook.disabled").exists()
    # agents' pauses and other projects' events cause nothing
    pause([agent], stamp=Stamp(MARA))
    elsewhere = make_agent(project=make_project("demo"))
    escalate(elsewhere)
    assert tick.process_due(now=timezone.now())["written"] == 0


def test_a_storm_is_read_in_batches(receiver: Receiver) -> None:
    """Two thousand events become ten messages and a summary, and end with their channel."""
    project, agent = make_project(), make_agent()
    make_person_channel(ntfy(receiver), project=project)
    spec = NotificationRuleSpec(
        conditions=("token.created",), channel=Channel.objects.get(), cap_per_hour=10
    )
    rules.create_rule(spec, project=project, stamp=Stamp(MARA))
    now = timezone.now()
    Event.objects.bulk_create(
        Event(
            at=now,
            project_id=project.id,
            kind="token.created",
            subject_type="token",
            subject_id=UUID(int=n),
            agent_id=agent.id,
            actor_type="system",
        )
        for n in range(2000)
    )
    did = tick.process_due(now=timezone.now())
    while did["written"]:
        did = tick.process_due(now=timezone.now())
    assert Delivery.objects.filter(state="held").count() == 1990
    Delivery.objects.filter(state="held").update(held_until=timezone.now())
    run_clock()
    titles = [title for _, title in told(receiver)]
    assert len(titles) == 11 and titles[-1] == "[default] 1990 held back"
    channels.delete_channel(Channel.objects.get().pk, stamp=Stamp(MARA))
    assert not Delivery.objects.exists()


def test_two_first_channels_at_once_get_the_default_rules_once(
    receiver: Receiver, elsewhere: Any
) -> None:
    project = make_project()
    outbox.begin_reading(timezone.now())  # else the second waits for this
    url = ntfy(receiver)
    with transaction.atomic():
        first = make_person_channel(url, project=project)
        second = elsewhere(lambda: make_person_channel(url, project=project, name="others"))
        with blocked(second):
            pass
    assert second.result(PATIENCE_S) != first
    assert {rule.channel for rule in NotificationRule.objects.all()} == {first}
    assert NotificationRule.objects.count() == len(DEFAULTS)


def test_of_two_tests_at_once_one_is_sent(receiver: Receiver, elsewhere: Any) -> None:
    channel, now = make_person_channel(ntfy(receiver), project=make_project()), timezone.now()

    def test() -> None:
        trials.send_test(channel, pause=timedelta(seconds=10), stamp=Stamp(MARA, now))

    with transaction.atomic():
        test()
        second = elsewhere(test)
        with blocked(second):
            pass
    with pytest.raises(RateLimited, match="One test or example per channel and 10 s"):
        second.result(PATIENCE_S)
    assert len(told(receiver)) == Delivery.objects.count() == 1
