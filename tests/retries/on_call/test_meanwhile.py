"""What happens between the steps of a policy: changes of policies, snoozes, people who leave."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from ledger.models import Agent, Event, Membership, Token
from retries.escalations import answering, assignment, snoozing
from retries.models import Escalation, EscalationPolicy
from retries.notifications import outbox
from retries.on_call import default_answers, editing, routing
from tests.dashboard.notifications.deliveries import make_notification_rule
from tests.factories import MINUTE, NOW, make_token
from tests.retries.escalations.test_answering import answer, ignored
from tests.retries.on_call.test_routing import (
    STAMP,
    deliver,
    escalated,
    make_member,
    make_policy,
    own_channel,
    route,
    the,
    told,
)
from tests.retries.on_call.test_routing import people as members

pytestmark = pytest.mark.django_db
people = members
ANSWERED = ["0 tell mara", "60 answer skip"]


def old_escalation(agent: Agent) -> None:
    """Open an escalation a day before its policy begins."""
    row = ignored(agent)
    Escalation.objects.filter(pk=row.pk).update(opened_at=NOW - timedelta(days=1))


def change(policy: EscalationPolicy, minutes: float = 0, **changes: Any) -> EscalationPolicy:
    stamp = type(STAMP)(STAMP.actor, NOW + minutes * MINUTE)
    found: EscalationPolicy = editing.update_policy(policy.pk, version=None, stamp=stamp, **changes)
    return found


# ---- the policy


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("changes", [{}, {"name": "days"}, {"position": 7}])
def test_a_saved_policy_brings_no_step_forward(agent: Agent, changes: dict[str, Any]) -> None:
    old_escalation(agent)
    policy = make_policy(agent.project, *ANSWERED)
    route()
    assert the().next_step_at == NOW + 60 * MINUTE
    change(policy, 10, **changes)
    route(10), route(59)
    assert the().is_open, "mara has an hour to answer, however old the escalation is"
    assert route(60)["answered"] == 1


@pytest.mark.usefixtures("people")
def test_an_added_default_answer_leaves_old_escalations_their_time(agent: Agent) -> None:
    old_escalation(agent)
    policy = make_policy(agent.project, ANSWERED[0])
    route()
    assert the().next_step_at is None
    change(policy, 10, steps=ANSWERED, answer_within_s=7200)
    assert the().answer_due_at == the().opened_at + timedelta(hours=2)
    route(10), route(69)
    assert the().is_open
    assert route(70)["answered"] == 1


@pytest.mark.usefixtures("people")
def test_a_step_that_moves_keeps_its_distance_to_the_one_before(agent: Agent) -> None:
    policy = make_policy(agent.project, "0 tell mara", "30 tell ben")
    ignored(agent)
    route(5)
    assert the().next_step_at == NOW + 35 * MINUTE
    change(policy, 6, steps=["0 tell mara", "20 tell ben", "40 tell ada"])
    assert the().next_step_at == NOW + 25 * MINUTE
    change(policy, 7, steps=["0 tell mara"])
    assert the().next_step_at is None
    route(90)
    assert told() == [["mara"]]


@pytest.mark.usefixtures("people")
def test_a_policy_that_is_switched_off_leaves_its_escalations_to_another(agent: Agent) -> None:
    policy = make_policy(agent.project, "0 tell mara", "20 remind", "40 remind")
    ignored(agent)
    route(), route(20)
    change(policy, 21, enabled=False)
    route(21)
    assert the().policy is None and the().policy_step == 0
    make_policy(agent.project, "0 tell ben", name="second")
    route(22)
    assert told() == [["mara"], ["ben"]], "the other policy begins with its first step"


@pytest.mark.usefixtures("people")
def test_a_policy_that_was_on_as_the_clock_read_it_leaves_no_step_behind(agent: Agent) -> None:
    policy = make_policy(agent.project, "0 tell mara", "20 remind")
    ignored(agent)
    route()
    EscalationPolicy.objects.filter(pk=policy.pk).update(enabled=False)
    route(20)
    assert the().policy is None and the().policy_step == 0 and the().told == ["mara"]


@pytest.mark.usefixtures("people")
def test_a_policy_can_be_switched_off_after_its_people_left(agent: Agent) -> None:
    policy = make_policy(agent.project, "0 tell mara")
    Membership.objects.filter(user__username="mara").delete()
    with pytest.raises(editing.Invalid, match="not a person who may answer"):
        change(policy, name="days")
    assert not change(policy, enabled=False).enabled
    with pytest.raises(editing.Invalid, match="not a person who may answer"):
        change(policy, enabled=True)


@pytest.mark.usefixtures("people")
def test_no_policy_grants_more_than_a_budget_has(agent: Agent) -> None:
    with pytest.raises(editing.Invalid) as refused:
        make_policy(agent.project, "0 tell mara", "30 answer grant: 5 USD")
    assert refused.value.more["errors"][0]["pointer"] == "/steps/1"


# ---- a snooze


@pytest.mark.usefixtures("people")
def test_a_default_answer_waits_for_its_time_after_a_snooze(agent: Agent) -> None:
    make_policy(agent.project, *ANSWERED)
    row = ignored(agent)
    route()
    every = Escalation.objects.all()
    stamp = type(STAMP)(STAMP.actor, NOW + 50 * MINUTE)
    snoozing.snooze(row.pk, NOW + 300 * MINUTE, among=every, stamp=stamp)
    assert the().next_step_at == NOW + 310 * MINUTE
    snoozing.snooze(row.pk, NOW + 200 * MINUTE, among=every, stamp=stamp)
    assert the().next_step_at == NOW + 210 * MINUTE
    snoozing.return_due(now=NOW + 200 * MINUTE, of=None)
    route(200), route(209)
    assert the().is_open
    assert route(210)["answered"] == 1


@pytest.mark.usefixtures("people")
def test_a_snooze_that_ends_early_leaves_the_rest_of_the_time(agent: Agent) -> None:
    make_policy(agent.project, *ANSWERED)
    row = ignored(agent)
    every = Escalation.objects.all()
    snoozing.snooze(row.pk, NOW + 5 * MINUTE, among=every, stamp=STAMP)
    assert the().next_step_at and the().policy is None, "it has no policy yet"
    snoozing.snooze(row.pk, None, among=every, stamp=STAMP)
    route()
    snoozing.snooze(row.pk, NOW + 300 * MINUTE, among=every, stamp=STAMP)
    stamp = type(STAMP)(STAMP.actor, NOW + 10 * MINUTE)
    snoozing.snooze(row.pk, None, among=every, stamp=stamp)
    assert the().next_step_at == NOW + 70 * MINUTE


@pytest.mark.usefixtures("people")
def test_a_snooze_after_the_clock_read_the_row_stops_the_answer(agent: Agent) -> None:
    make_policy(agent.project, *ANSWERED)
    row = ignored(agent)
    route()
    Escalation.objects.update(snoozed_until=NOW + 300 * MINUTE)
    stamp = type(STAMP)(routing.CLOCK, NOW + 60 * MINUTE)
    assert not default_answers.give(row.pk, stamp=stamp) and the().is_open


# ---- people


@pytest.mark.usefixtures("people")
def test_a_reminder_whose_holder_left_reaches_those_who_know_of_it(agent: Agent) -> None:
    make_policy(agent.project, "0 tell mara, ben", "20 remind", "40 remind")
    ignored(agent)
    route()
    User.objects.filter(username="mara").update(is_active=False)
    route(20)
    assert told("escalation.reminded") == [["ben"]]
    holder = the().assignee
    assert holder and holder.username == "ben"
    Membership.objects.filter(user__username="ben").delete()
    route(40)
    assert told() == [["mara", "ben"], ["ada"]], "no one who knows of it may answer"
    assert the().told == ["mara", "ben", "ada"]


@pytest.mark.usefixtures("people")
def test_an_escalation_that_was_given_back_reminds_those_who_know_of_it(agent: Agent) -> None:
    make_policy(agent.project, "0 tell mara", "20 remind")
    row = ignored(agent)
    route()
    assignment.assign(row.pk, None, among=Escalation.objects.all(), stamp=STAMP)
    route(20)
    assert told("escalation.reminded") == [["mara"]] and the().assignee is None


@pytest.mark.usefixtures("people")
def test_a_refused_default_answer_reaches_someone_who_may_answer(agent: Agent) -> None:
    make_policy(agent.project, "0 tell mara", "30 answer accept")
    ignored(agent)
    route()
    User.objects.filter(username="mara").update(is_active=False)
    route(30)
    assert the().is_open and told("escalation.reminded") == [["ada", "ben"]]


@pytest.mark.usefixtures("people")
def test_the_task_of_an_instruction_is_a_condition(agent: Agent) -> None:
    task = escalated(agent, type="deploy").task
    Escalation.objects.all().delete()
    make_policy(agent.project, "0 tell ben", name="deploys", conditions="type:deploy")
    row = ignored(agent)
    assert row.instruction
    type(row.instruction).objects.filter(pk=row.instruction.pk).update(task=task)
    route()
    assert the().told == ["ben"]


@pytest.mark.usefixtures("people")
def test_a_default_answer_ends_with_its_authors_right_to_answer(agent: Agent) -> None:
    make_policy(agent.project, "0 tell ada", "30 answer skip")
    ignored(agent), route()
    Membership.objects.filter(user__username="mara").delete()
    route(30)
    assert the().is_open and told("escalation.reminded") == [["ada"]]
    event = Event.objects.get(kind="escalation.reminded")
    assert event.data["not_answered"] == (
        "mara, who wrote the default answer, may not answer here."
    )


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("changes", [{}, {"revoked_at": NOW}, {"scopes": ["tasks:read"]}])
def test_a_token_that_wrote_a_default_answer_must_be_valid(
    agent: Agent, changes: dict[str, Any]
) -> None:
    policy = make_policy(agent.project, "0 tell ada", "30 answer skip")
    make_token("operator", project=agent.project, name="ci")
    EscalationPolicy.objects.filter(pk=policy.pk).update(answer_by_name="ci")
    Token.objects.filter(name="ci").update(**changes)
    ignored(agent), route(), route(30)
    assert the().is_open == bool(changes)


# ---- errors


@pytest.mark.usefixtures("people")
def test_an_answer_that_fails_does_not_hold_up_the_others(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_policy(agent.project, *ANSWERED)
    ignored(agent)
    route()

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(answering, "answer", fail)
        assert route(60)["answered"] == 0
        assert the().is_open and the().next_step_at == NOW + 61 * MINUTE
    assert route(61)["answered"] == 1


@pytest.mark.usefixtures("people")
def test_an_answer_without_an_author_is_not_given_and_someone_hears_of_it(agent: Agent) -> None:
    make_policy(agent.project, *ANSWERED)
    ignored(agent)
    route()
    EscalationPolicy.objects.update(answer_by_name="")
    route(60)
    assert the().is_open and told("escalation.reminded") == [["mara"]]
    assert the().next_step_at is None


@pytest.mark.usefixtures("people")
def test_one_run_takes_all_that_is_due(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MOST_BATCHES", 3)
    monkeypatch.setattr(routing, "BATCH_SIZE", 1)
    monkeypatch.setattr(routing, "DUE", routing.DUE.replace("limit 200", "limit 1"))
    make_policy(agent.project, "0 tell mara")
    for n in range(4):
        ignored(agent, f"Check {n}")
    assert route()["told"] == 3 and route()["told"] == 1


# ---- messages


@pytest.mark.django_db(transaction=True)
def test_a_rule_that_told_a_channel_long_before_does_not_replace_the_policy(
    agent: Agent, people: dict[str, User]
) -> None:
    make_notification_rule(own_channel(people["mara"]), now=NOW, conditions=["escalation"])
    make_policy(agent.project, "15 tell mara")
    outbox.begin_reading(NOW)
    ignored(agent)
    route()
    assert [kind for _, kind, _ in deliver()] == ["escalation.opened"]
    route(15)
    assert [kind for _, kind, _ in deliver(15)] == ["escalation.opened", "escalation.told"]


@pytest.mark.django_db(transaction=True)
def test_the_end_reaches_who_took_it_and_no_one_who_left(
    agent: Agent, people: dict[str, User]
) -> None:
    for name in ("mara", "ben"):
        own_channel(people[name])
    make_policy(agent.project, "0 tell mara", "20 remind")
    outbox.begin_reading(NOW)
    row = ignored(agent)
    route()
    assignment.assign(row.pk, "ben", among=Escalation.objects.all(), stamp=STAMP)
    route(20)
    deliver(20)
    Membership.objects.filter(user=people["mara"]).delete()
    answer(row, "skip", now=NOW + 21 * MINUTE)
    found = [each[:2] for each in deliver(21)]
    assert found[2:] == [("ben's", "escalation.resolved")], found
    assert Event.objects.filter(kind="escalation.resolved").count() == 1


def test_a_member_is_told_again_after_a_return(agent: Agent) -> None:
    user = make_member(agent.project, "mara")
    make_policy(agent.project, "0 tell mara")
    user.is_active = False
    user.save()
    ignored(agent)
    route()
    assert told() == [] and the().told == []
    User.objects.update(is_active=True)
    route(1)
    assert told() == [["mara"]]
