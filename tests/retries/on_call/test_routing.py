"""The clock routes escalations to people by their policy, and gives default answers."""

import random
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from bench.nights import CHANGES, PEOPLE, ZONES, make_schedule, make_steps
from ledger.authorization.roles import Role
from ledger.errors import Invalid
from ledger.journal import Stamp
from ledger.models import Agent, Event, Membership, Project
from ledger.states import TaskState
from retries.escalations import assignment, snoozing
from retries.models import Channel, Delivery, Escalation, EscalationPolicy, Grouped
from retries.notifications import outbox
from retries.on_call import editing, routing
from retries.on_call.holders import describe_holder
from retries.on_call.rotas import format_shift
from retries.on_call.steps import Case, Directory, format_step, take_turn
from tests.dashboard.notifications.deliveries import make_channel, make_notification_rule
from tests.dashboard.worked import make_task
from tests.elsewhere import at_once
from tests.factories import MINUTE, NOW
from tests.retries.escalations.test_answering import MARA, answer, ignored
from tests.retries.moves import attempt_of, claim, fail

pytestmark = pytest.mark.django_db
STAMP = Stamp(MARA, NOW)


@pytest.fixture
def people(agent: Agent) -> dict[str, User]:
    return {name: make_member(agent.project, name) for name in ("ada", "ben", "mara")}


def make_member(project: Project, name: str, role: str = Role.OPERATOR, group: str = "") -> User:
    user = User.objects.create_user(name)
    Membership.objects.create(user=user, project=project, role=role, group=group, added_by="mara")
    return user


def make_policy(project: Project, *steps: str, **more: Any) -> EscalationPolicy:
    values = {"name": "nights", "answer_within_s": 3600, "steps": list(steps)} | more
    return editing.create_policy(project, stamp=STAMP, **values)


def route(minutes: float = 0) -> dict[str, Any]:
    return routing.take_due_steps(now=NOW + minutes * MINUTE)


def told(kind: str = "escalation.told") -> list[list[str]]:
    events = Event.objects.filter(kind=kind, data__has_key="people").order_by("id")
    return [event.data["people"] for event in events]


def the(**filters: Any) -> Escalation:
    return Escalation.objects.select_related("policy", "assignee").get(**filters)


def escalated(agent: Agent, **more: Any) -> Escalation:
    start = NOW - timedelta(seconds=10)  # its attempt takes as long
    task = make_task(TaskState.ESCALATED, agent=agent, now=start, **more)
    return Escalation.objects.open().get(task=task)


@pytest.mark.usefixtures("people")
def test_each_step_is_taken_once_and_the_row_says_who_has_it_until_when(agent: Agent) -> None:
    make_policy(agent.project, "0 tell mara", "20 tell ben", "40 remind")
    ignored(agent)
    assert route() == {"told": 1, "answered": 0} and route() == {"told": 0, "answered": 0}
    row = the()
    assert (row.assignee and row.assignee.username, row.told, row.version) == ("mara", ["mara"], 1)
    assert row.answer_due_at == NOW + 60 * MINUTE
    holder = describe_holder(row, now=NOW)
    assert holder and (holder.name, holder.then) == ("mara", "on call: ben")
    assert holder.until == NOW + 20 * MINUTE and not holder.is_overdue
    route(19), route(20), route(21), route(40), route(41)
    assert told() == [["mara"], ["ben"]] and told("escalation.reminded") == [["ben"]]
    last = describe_holder(the(), now=NOW + 61 * MINUTE)
    assert last and last.is_overdue and (last.name, last.until) == ("ben", None)


@pytest.mark.usefixtures("people")
def test_an_assignment_by_hand_ends_the_routing_but_not_the_reminders(agent: Agent) -> None:
    make_policy(agent.project, "0 tell mara", "20 tell ben", "40 remind")
    row = ignored(agent)
    route()
    assignment.assign(row.pk, "ada", among=Escalation.objects.all(), stamp=STAMP)
    holder = describe_holder(the(), now=NOW)
    assert holder and (holder.name, holder.then) == ("ada", "a reminder")
    route(20), route(40)
    assert told() == [["mara"]] and told("escalation.reminded") == [["ada"], ["ada"]]
    assert the().assignee == User.objects.get(username="ada")


@pytest.mark.usefixtures("people")
def test_an_answer_ends_the_steps_and_a_snooze_postpones_them(agent: Agent) -> None:
    make_policy(agent.project, "0 tell mara", "20 tell ben")
    row = ignored(agent)
    route()
    until = NOW + 50 * MINUTE
    snoozing.snooze(row.pk, until, among=Escalation.objects.all(), stamp=STAMP)
    route(30)
    assert told() == [["mara"]]
    route(50), route(69)
    assert told() == [["mara"]], "she has the rest of her time"
    route(70)
    assert told() == [["mara"], ["ben"]]
    other = ignored(agent, "Other")
    answer(other, "skip")
    route(80)
    assert len(told()) == 2


@pytest.mark.usefixtures("people")
def test_the_first_policy_whose_conditions_hold_applies(agent: Agent) -> None:
    project = agent.project
    make_policy(project, "0 tell ada", name="code", conditions="type:code* agent:coder")
    make_policy(project, "0 tell ben", name="rest", conditions="reason:instruction_ignored")
    make_policy(project, "0 tell mara", name="off", position=0, enabled=False)
    task = escalated(agent, type="code-review")
    instruction = ignored(agent)
    other = escalated(agent, type="deploy")
    route()
    assert the(pk=task.pk).told == ["ada"] and the(pk=instruction.pk).told == ["ben"]
    assert the(pk=other.pk).policy is None and the(pk=other.pk).next_step_at is None
    make_policy(project, "0 tell mara", name="all")
    route(1)
    assert the(pk=other.pk).told == ["mara"], "a new policy finds those without one"


@pytest.mark.usefixtures("people")
def test_a_pattern_of_the_last_failure_is_a_condition(agent: Agent) -> None:
    escalated(agent, why={"message": "ModuleNotFoundError: No module named 'lxml'"})
    pattern = Grouped.objects.get().pattern_id
    make_policy(agent.project, "0 tell ada", name="x", conditions="pattern:00000000")
    make_policy(agent.project, "0 tell ben", conditions=f"pattern:{str(pattern)[-8:]}")
    route()
    assert the().told == ["ben"]


@pytest.mark.usefixtures("people")
def test_rotas_groups_and_roles_are_resolved_when_the_step_is_taken(agent: Agent) -> None:
    project = agent.project
    make_member(project, "eva", Role.ADMIN, group="sre")
    editing.create_rota(
        project,
        name="nights",
        timezone="UTC",
        shifts=["sat 12:00-12:30 ada"],
        fallback=["ben"],
        stamp=STAMP,
    )
    make_policy(project, "0 tell rota:nights", "40 tell rota:nights", "50 tell group:sre")
    ignored(agent)
    route(), route(40), route(50)
    assert told() == [["ada"], ["ben"], ["eva"]]
    User.objects.filter(username="ada").update(is_active=False)
    ignored(agent, "Again")
    route(5)
    assert told()[3] != ["ada"], "an account that is off is told of nothing"


# ---- default answers


@pytest.mark.usefixtures("people")
def test_a_default_answer_is_given_once_and_names_who_wrote_it(agent: Agent) -> None:
    make_policy(agent.project, "0 tell mara", "30 answer retry")
    row = escalated(agent, max_attempts=1)
    route()
    assert route(29)["answered"] == 0 and the().is_open
    assert route(30)["answered"] == 1 and route(31)["answered"] == 0
    row = the()
    assert (row.state, row.action, row.channel) == ("resolved", "retry", "policy")
    assert row.answered_by_name == "policy nights, written by mara"
    event = Event.objects.get(kind="escalation.resolved")
    assert (event.actor_type, event.actor_name) == ("system", "policy nights, written by mara")
    # the retry fails again: this time the policy only tells people
    fail(agent, attempt_of(claim(agent, now=NOW + 32 * MINUTE)), now=NOW + 33 * MINUTE)
    again = Escalation.objects.open().get()
    route(33), route(64)
    assert the(pk=again.pk).is_open and told("escalation.reminded") == [["mara"]]
    reminded = Event.objects.filter(kind="escalation.reminded").latest("id")
    assert "a person decides" in reminded.data["not_answered"]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "needs_credentials"},
        {"reason": "needs_permission"},
        {"reason": "agent_question", "question": "Which API key may I use?"},
        {
            "reason": "agent_question",
            "question": "Which?",
            "response_schema": {"properties": {"db_password": {"type": "string"}}},
        },
    ],
)
def test_no_policy_answers_what_only_a_person_may(agent: Agent, changes: dict[str, Any]) -> None:
    make_policy(agent.project, "0 tell mara", "30 answer retry")
    escalated(agent)
    Escalation.objects.update(**changes)
    route(), route(30), route(90)
    assert the().is_open and told("escalation.reminded") == [["mara"]]


@pytest.mark.usefixtures("people")
def test_an_answer_that_the_escalation_does_not_offer_is_not_given(agent: Agent) -> None:
    make_policy(agent.project, "0 tell mara", "30 answer accept")
    escalated(agent)
    route(), route(30)
    assert the().is_open
    reminded = Event.objects.filter(kind="escalation.reminded").latest("id")
    assert reminded.data["not_answered"] == "This escalation does not offer 'accept'."


# ---- races and outages


@pytest.mark.django_db(transaction=True)
def test_clocks_that_run_at_once_take_each_step_once(agent: Agent) -> None:
    for name in ("ada", "mara"):
        make_member(agent.project, name)
    make_policy(agent.project, "0 tell mara", "5 tell ada", "30 answer retry")
    for n in range(12):
        ignored(agent, f"Check {n}")
    for minute in (0, 5, 30):
        results = at_once(4, lambda _, minute=minute: route(minute))
        assert not [each for each in results if isinstance(each, Exception)], results
    events = Event.objects.filter(kind="escalation.told")
    assert events.count() == 24 and len({(e.subject_id, e.data["step"]) for e in events}) == 24
    assert Event.objects.filter(kind="escalation.resolved").count() == 12
    assert Escalation.objects.filter(channel="policy", answered_by_type="system").count() == 12


@pytest.mark.parametrize("seed", range(4))
def test_a_night_with_a_change_of_clocks_goes_by_the_rules(agent: Agent, seed: int) -> None:
    """The clock on PostgreSQL tells the same people as the simulated rules, each once."""
    dice = random.Random(seed)
    zone, day = ZONES[seed], dice.choice(CHANGES[ZONES[seed]])
    since = datetime.combine(day, time(), UTC) - timedelta(hours=12)
    project, schedules = agent.project, {name: make_schedule(dice, zone) for name in ("a", "b")}
    for name in PEOPLE:
        make_member(project, name, Role.ADMIN if name in PEOPLE[:2] else Role.OPERATOR)
    for name, schedule in schedules.items():
        editing.create_rota(
            project,
            name=name,
            timezone=zone,
            shifts=[format_shift(shift) for shift in schedule.shifts],
            fallback=list(schedule.fallback),
            stamp=STAMP,
        )
    steps = make_steps(dice)
    make_policy(project, *map(format_step, steps), answer_within_s=36_000)
    directory = Directory(sorted(PEOPLE), schedules, {"role:admin": PEOPLE[:2]})
    rows = [ignored(agent, f"Check {n}") for n in range(4)]
    expected = []
    for row in rows:
        opened = since + timedelta(minutes=dice.randint(0, 12 * 60))
        Escalation.objects.filter(pk=row.pk).update(opened_at=opened)
        case, due = Case(opened_at=opened), opened
        while due is not None:
            turn = take_turn(case, steps, directory, now=due)
            case, due = turn.case, turn.next_at
        expected.append(list(case.told))
    for minute in range(0, 15 * 60):
        routing.take_due_steps(now=since + minute * MINUTE)
    found = [the(pk=row.pk).told for row in rows]
    assert found == expected and all(found)
    for row in rows:
        events = Event.objects.filter(subject_id=row.pk, kind="escalation.told")
        named = [name for event in events.order_by("id") for name in event.data["people"]]
        assert named == the(pk=row.pk).told and len(named) == len(set(named))


@pytest.mark.usefixtures("people")
def test_a_process_that_dies_in_its_step_leaves_it_due(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_policy(agent.project, "0 tell mara")
    ignored(agent)

    def die(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(routing, "find_ids", die)
        route()
    assert told() == [] and the().told == []
    assert route()["told"] == 1 and told() == [["mara"]]


# ---- messages


def deliver(minutes: float = 0) -> list[tuple[str, str, str]]:
    outbox.read_outbox(now=NOW + minutes * MINUTE)
    rows = Delivery.objects.select_related("channel").order_by("id")
    return [(row.channel.name, row.kind, row.state) for row in rows]


def own_channel(user: User, now: datetime = NOW) -> Channel:
    channel = make_channel(f"{user.username}'s", kind="person", now=now)
    Channel.objects.filter(pk=channel.pk).update(person=user)
    return channel


@pytest.mark.django_db(transaction=True)  # the journal's readers see what was committed
def test_people_are_told_on_their_own_channels_and_hear_of_the_end(
    agent: Agent, people: dict[str, User]
) -> None:
    for name in ("mara", "ben"):
        own_channel(people[name])
    make_policy(agent.project, "0 tell mara", "20 tell ben")
    outbox.begin_reading(NOW)
    row = ignored(agent)
    route()
    assert deliver() == [("mara's", "escalation.told", "pending")]
    route(20)
    assert deliver(20)[1:] == [("ben's", "escalation.told", "pending")]
    answer(row, "skip", now=NOW + 21 * MINUTE)
    assert {each[:2] for each in deliver(21)[2:]} == {
        ("mara's", "escalation.resolved"),
        ("ben's", "escalation.resolved"),
    }


@pytest.mark.django_db(transaction=True)
def test_a_channel_that_a_rule_told_a_moment_before_gets_no_second_message(
    agent: Agent, people: dict[str, User]
) -> None:
    channel = own_channel(people["mara"])
    make_notification_rule(channel, now=NOW, conditions=["escalation"])
    make_policy(agent.project, "0 tell mara", "20 tell ben")
    outbox.begin_reading(NOW)
    ignored(agent)
    route()
    assert [kind for _, kind, _ in deliver()] == ["escalation.opened"]
    route(20)
    assert deliver(20)[1:] == [("mara's", "escalation.told", "pending")], "ben has no channel"


# ---- checks


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("steps", "pointer"),
    [
        ([], "/steps"),
        (["0 remind"], "/steps/0"),
        (["90 tell mara"], "/steps/0"),
        (["0 tell zoe"], "/steps/0"),
        (["0 tell rota:none"], "/steps/0"),
        (["0 tell group:none"], "/steps/0"),
        (["0 tell mara", "0 remind"], "/steps/1"),
        (["0 tell mara", "5 answer retry", "9 remind"], "/steps/1"),
        (["0 tell mara", "5 answer allow"], "/steps/1"),
        (["0 tell mara", "5 answer deny: no"], "/steps/1"),
        (["0 tell mara", "5 answer maybe"], "/steps/1"),
        (["0 tell mara", "5 answer fix: use password=hunter2hunter2"], "/steps/1"),
    ],
)
def test_a_policy_that_can_not_work_is_refused(
    agent: Agent, steps: list[str], pointer: str
) -> None:
    with pytest.raises(Invalid) as refused:
        make_policy(agent.project, *steps)
    assert refused.value.more["errors"][0]["pointer"] == pointer
    assert not EscalationPolicy.objects.exists()


@pytest.mark.usefixtures("people")
def test_a_default_answer_belongs_to_the_person_who_wrote_it(agent: Agent) -> None:
    policy = make_policy(agent.project, "0 tell mara", "30 answer retry")
    ben = Stamp(type(MARA)("user", "2", "ben"), NOW)
    lines = ["0 tell ada", "30 answer retry"]
    changed = editing.update_policy(policy.pk, version=1, stamp=ben, steps=lines)
    assert (changed.answer_by_name, changed.changed_by_name) == ("mara", "ben")
    lines = ["0 tell ada", "30 answer skip"]
    assert (
        editing.update_policy(policy.pk, version=2, stamp=ben, steps=lines).answer_by_name == "ben"
    )
    changed = editing.update_policy(policy.pk, version=3, stamp=ben, steps=lines[:1])
    assert changed.answer_by_name == ""


@pytest.mark.usefixtures("people")
def test_the_escalations_of_a_deleted_policy_get_another(agent: Agent) -> None:
    policy = make_policy(agent.project, "0 tell mara", "30 tell ben")
    make_policy(agent.project, "0 tell ada, mara", name="second")
    ignored(agent)
    route()
    editing.delete(EscalationPolicy, policy.pk, stamp=STAMP)
    route(1)
    row = the()
    assert row.policy and row.policy.name == "second" and row.told == ["mara", "ada"]
