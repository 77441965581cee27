"""Several rules that tell one channel of the same event: it is told once, as soon as one may."""

from datetime import UTC, time, timedelta
from typing import Any

import pytest
from django.utils import timezone

from ledger import journal
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Project
from ledger.pools import membership
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Channel, Delivery, Escalation, NotificationRule, NotificationThread
from retries.notifications.rules import editing as rules
from retries.notifications.rules.editing import NotificationRuleSpec
from retries.states import Answer
from tests.factories import make_agent, make_project
from tests.retries.budgets.spending import set_budget, spend
from tests.retries.moves import make_task
from tests.retries.notifications.receivers import (
    MARA,
    Receiver,
    escalate,
    make_person_channel,
    ntfy,
    run_clock,
    told,
)

pytestmark = pytest.mark.django_db(transaction=True)

NEEDS_YOU = ("oncall", "[default] Needs you: Rename the column (coder, failed 1 of 1)")
ANSWERED = ("oncall", "[default] Answered: Rename the column (coder, failed 1 of 1)")


@pytest.fixture
def channel(receiver: Receiver) -> Channel:
    """A channel without the rules that a project's first one brings."""
    made = make_person_channel(ntfy(receiver), project=make_project())
    NotificationRule.objects.all().delete()
    return made


def make_rule(channel: Channel, *conditions: str, **more: Any) -> NotificationRule:
    spec = NotificationRuleSpec(conditions=conditions or ("escalation",), channel=channel, **more)
    return rules.create_rule(spec, project=make_project(), stamp=Stamp(MARA))


def quiet_for(hours: int) -> dict[str, time]:
    """Return the fields of a rule whose quiet hours began an hour ago."""
    now = timezone.now().astimezone(UTC)
    starts, ends = ((now + timedelta(hours=n)).time() for n in (-1, hours))
    return {"quiet_from": starts, "quiet_until": ends}


def record(kind: Kind, project: Project) -> None:
    journal.record(
        kind,
        subject_type="token",
        subject_id=project.pk,
        project_id=project.pk,
        stamp=Stamp(SYSTEM),
    )


def answer(asked: Escalation) -> None:
    answering.answer(
        asked.pk,
        Choice(Answer.RETRY),
        channel="api",
        among=Escalation.objects.all(),
        stamp=Stamp(MARA),
    )


@pytest.mark.parametrize("held_first", [True, False], ids=["held first", "held second"])
def test_a_rule_in_its_quiet_hours_does_not_keep_another_one_from_telling(
    receiver: Receiver, channel: Channel, held_first: bool
) -> None:
    for is_quiet in (held_first, not held_first):
        make_rule(channel, **(quiet_for(1) if is_quiet else {}))
    asked = escalate(make_agent())
    run_clock()
    assert told(receiver) == [NEEDS_YOU]
    assert not Delivery.objects.exclude(state="delivered").exists()
    now = NotificationThread.objects.get(rule__quiet_from=None)
    assert (now.messages, now.title) == (1, NEEDS_YOU[1])
    answer(asked)
    run_clock()
    assert told(receiver) == [ANSWERED]


@pytest.mark.parametrize("is_member", [True, False])
def test_a_rule_of_a_pool_tells_of_its_members(
    receiver: Receiver, channel: Channel, is_member: bool
) -> None:
    agent = make_agent()
    members = [agent] if is_member else []
    pool = membership.create("pool", members=members, project=make_project(), stamp=Stamp(MARA))
    make_rule(channel, agent=pool)
    escalate(agent)
    run_clock()
    assert told(receiver) == ([NEEDS_YOU] if is_member else [])


@pytest.mark.parametrize("details", [True, False])
def test_a_message_about_a_budget_has_its_figures_once(
    receiver: Receiver, channel: Channel, details: bool
) -> None:
    Channel.objects.update(include_details=details)
    make_rule(channel, "budget")
    agent, now = make_agent(), timezone.now()
    set_budget(agent, now=now)
    make_task(agent, now=now)
    spend(agent, tokens=850, now=now)
    run_clock()
    text = Delivery.objects.get().body["text"]
    assert text.count("The budget of the project is 85% used: 850 of 1,000 tokens.") == 1


def test_of_two_rules_that_tell_now_the_older_one_does(
    receiver: Receiver, channel: Channel
) -> None:
    """The younger one's reminders follow that message."""
    older = make_rule(channel)
    younger = make_rule(channel, repeat_s=600)
    # its row is now behind the other one's, where a query without an order would find it
    NotificationRule.objects.filter(pk=older.pk).update(version=2)
    asked = escalate(make_agent())
    run_clock()
    assert told(receiver) == [NEEDS_YOU] and Delivery.objects.get().rule == older
    threads = NotificationThread.objects.order_by("rule")
    assert [(each.rule, each.messages) for each in threads] == [(older, 1), (younger, 1)]
    NotificationThread.objects.filter(rule=younger).update(repeat_at=timezone.now())
    run_clock()
    assert len(told(receiver)) == 1 and Delivery.objects.get(role="reminder").rule == younger
    answer(asked)
    run_clock()
    assert told(receiver) == [ANSWERED]


@pytest.mark.parametrize("hours", [(1, 2), (2, 1)], ids=["shorter first", "shorter second"])
def test_of_two_quiet_hours_the_first_to_end_counts(
    receiver: Receiver, channel: Channel, hours: tuple[int, int]
) -> None:
    made = {each: make_rule(channel, **quiet_for(each)) for each in hours}
    escalate(make_agent())
    run_clock()
    held = Delivery.objects.get()
    assert (held.state, held.rule) == ("held", made[1])
    assert held.held_until is not None and held.held_until.time() == made[1].quiet_until
    assert {each.messages for each in NotificationThread.objects.all()} == {0}


def test_a_cap_counts_only_what_its_own_rule_sends(receiver: Receiver, channel: Channel) -> None:
    make_rule(channel)
    make_rule(channel, "escalation", "token.created", cap_per_hour=1)
    escalate(make_agent())
    record(Kind.TOKEN_CREATED, make_project())
    run_clock()
    assert len(told(receiver)) == 2 and not Delivery.objects.filter(state="held").exists()


def test_a_channel_that_is_off_is_told_by_neither(receiver: Receiver, channel: Channel) -> None:
    """The second channels of both rules are due at once: no one can react."""
    phone = make_person_channel(ntfy(receiver, "phone"), project=make_project(), name="phone")
    NotificationRule.objects.all().delete()  # that it brought
    now = timezone.now()
    Channel.objects.filter(pk=channel.pk).update(
        state="disabled", disabled_because="gave_up", disabled_at=now
    )
    for _ in range(2):
        make_rule(channel, second_channel=phone, second_after_s=3600)
    escalate(make_agent())
    run_clock()
    assert Delivery.objects.filter(channel=channel).count() == 1
    assert Delivery.objects.get(channel=channel).state == "not_sent"
    assert [topic for topic, _ in told(receiver)] == ["phone", "phone"]
    threads = NotificationThread.objects.all()
    assert all(each.second_told_at and each.second_told_at > now for each in threads)
