"""What the clock finds: agents that are silent, and plans that are stuck."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connection, transaction

from ledger import planfile
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, DeadLetter, Event, Instruction, Project, Task
from ledger.plans.import_diff import ImportOptions
from ledger.states import TaskState
from ledger.tasks import type_pauses
from ledger.tokens import TrustedCaller
from retries import breaker_actions, deadletters
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.models import OngoingCondition
from retries.notifications.rules import watches
from retries.plans import importing
from retries.tasks import actions as task_actions
from tests.elsewhere import blocked
from tests.factories import NOW, make_agent, make_project, send
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.statement_plans import plan_of, prepared
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db

MARA = Stamp(Actor("user", "1", "mara"), NOW)
LATER = NOW + timedelta(hours=1)


def import_plan(ref: str, *needs: str, **more: Any) -> UUID:
    """Import a plan of one task, which needs other plans or their tasks; return the task's id."""
    file = planfile.canonical(
        {"ref": ref, "agent": "coder", "tasks": [{"needs": list(needs)}]} | more
    )
    options = ImportOptions(allow_missing_needs=True)
    importing.import_plan(make_project(), file, options=options, stamp=Stamp(SYSTEM, NOW))
    return find_task(f"{ref}:task-1").pk


def find_task(ref: str) -> Task:
    return Task.objects.current().get(ref=ref)


def bury(agent: Agent, id: UUID) -> None:
    """Let a task fail for good."""
    Task.objects.filter(pk=id).update(on_exhausted="dead_letter", attempt_limit=1)
    fail(agent, attempt_of(claim(agent, task=id)), now=NOW, type="verification_failed")
    assert Task.objects.get(pk=id).state == TaskState.FAILED


def find_stuck() -> set[str]:
    """Run the check and return the refs of the plans that are stuck now."""
    watches.watch_conditions(now=NOW)
    stuck = OngoingCondition.objects.filter(condition=watches.STUCK).values("subject_id")
    return set(Task.objects.filter(plan__in=stuck).values_list("plan__ref", flat=True))


def list_told() -> list[str]:
    """Return the refs of all plans that the journal calls stuck, in order."""
    events = Event.objects.filter(kind="plan.stuck").order_by("id")
    return [event.data["ref"] for event in events]


# ---- plans


@pytest.mark.parametrize(
    "state", ["queued", "running", "retry", "escalated", "breaker_open", "reported"]
)
def test_a_plan_that_waits_for_a_live_one_is_not_stuck(agent: Agent, state: str) -> None:
    """However many plans on: the first one's task still starts, runs, or waits for an answer."""
    first = import_plan("03-01")
    import_plan("03-02", "03-01")
    import_plan("03-03", "03-02:task-1")
    if state == "breaker_open":
        breaker_actions.trip([agent], reason="it is down", stamp=MARA)
        claim(agent, task=first)
    elif state != "queued":
        Task.objects.filter(pk=first).update(attempt_limit=2 if state == "retry" else 1)
        attempt = attempt_of(claim(agent, task=first))
        if state == "reported":
            said = Report(status="blocked", message="The key is missing")
            caller = TrustedCaller(SYSTEM, agent=agent)
            finishing.finish_attempt(attempt, said, caller=caller, now=NOW)
        elif state != "running":
            fail(agent, attempt, now=NOW, type="verification_failed", retry_after_s=600)
    task = Task.objects.get(pk=first)
    assert state in (task.state, task.blocked_reason)
    assert find_stuck() == set()


def test_plans_are_stuck_with_what_they_wait_for_until_it_is_replayed(agent: Agent) -> None:
    first = import_plan("03-01")
    import_plan("03-02", "03-01")
    import_plan("03-03", "03-02:task-1")
    bury(agent, first)
    for _ in range(2):
        assert find_stuck() == {"03-02", "03-03"}
    letter = DeadLetter.objects.get()
    deadletters.replay([letter.pk], among=DeadLetter.objects.all(), stamp=MARA)
    assert find_stuck() == set()
    bury(agent, find_task("03-01:task-1").pk)
    assert find_stuck() == {"03-02", "03-03"}
    assert sorted(list_told()) == ["03-02", "03-02", "03-03", "03-03"]


def test_one_task_that_can_go_on_is_enough(agent: Agent) -> None:
    """A task that waits for a live one and a failed one can't; another that waits only for the
    live one can."""
    import_plan("03-01")
    failed = import_plan("03-02")
    import_plan("03-03", "03-01", "03-02")
    import_plan("03-04", tasks=[{"needs": ["03-01", "03-02"]}, {"needs": ["03-01"]}])
    bury(agent, failed)
    assert find_stuck() == {"03-03"}


def test_a_plan_whose_only_task_asked_a_person_waits_for_the_answer(agent: Agent) -> None:
    first = import_plan("03-01", tasks=[{}, {"needs": ["task-1"]}])
    said = Report(status="blocked", message="The key is missing")
    attempt = attempt_of(claim(agent, task=first))
    finishing.finish_attempt(attempt, said, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)
    assert Task.objects.get(pk=first).blocked_reason == "reported"
    assert find_stuck() == set()


def test_a_plan_whose_tasks_a_person_holds_back_is_stuck(agent: Agent) -> None:
    first = import_plan("03-01", tasks=[{}, {"needs": ["task-1"]}])
    import_plan("03-02", "03-01:task-2")
    task_actions.skip([first], dependents="block", stamp=MARA)
    assert find_task("03-01:task-2").blocked_reason == "dependency_skipped"
    assert find_stuck() == {"03-01", "03-02"}


def test_a_plan_that_waits_for_an_aborted_one_is_stuck_and_for_a_missing_one_is_not(
    agent: Agent,
) -> None:
    """A person has to restart the aborted plan; the other one starts when its need is imported."""
    import_plan("03-01", "02-05")
    aborted = import_plan("03-02")
    import_plan("03-03", "03-02")
    task_actions.abort([aborted], stamp=MARA)
    assert find_stuck() == {"03-03"}


# Copies of a failed task, outside of plans, with their dead letters.
FAILED = """
insert into ledger_task select copy.* from ledger_task t, generate_series(1, 2000) g,
    jsonb_populate_record(t, jsonb_build_object('id', uuidv7(), 'plan_id', null, 'ref', null,
        'run', null, 'priority', g)) copy
where t.state = 'failed';
insert into ledger_deadletter select copy.* from ledger_deadletter l, ledger_task t,
    jsonb_populate_record(l, jsonb_build_object('id', uuidv7(), 'task_id', t.id)) copy
where t.state = 'failed' and t.plan_id is null
"""


def test_no_table_is_read_whole_to_find_stuck_plans(agent: Agent) -> None:
    bury(agent, import_plan("03-01"))
    import_plan("03-02", "03-01")
    with prepared("ledger_task", fill=FAILED) as cursor:
        for table in ("ledger_plan", "ledger_need", "retries_escalation", "ledger_deadletter"):
            cursor.execute(f"analyze {table}".encode())
        plan = plan_of(cursor, watches.STUCK_PLANS, {"of": None})
    read = [line for line in plan if "Scan" in line and (" ledger_" in line or " retries_" in line)]
    assert len(read) > 5 and not [line for line in read if "Seq Scan" in line], "\n".join(plan)
    by_plan = [line for line in read if " on ledger_task t" in line]
    assert any("task_of_plan_under_way" in line for line in by_plan)


# ---- silent agents


def make_silent(*names: str) -> list[Agent]:
    """Make agents for each of which an instruction has waited too long."""
    made = [make_agent(name) for name in names]
    for agent in made:
        send(agent)
    return made


def call(agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=LATER)


def watch() -> tuple[int, int]:
    did = watches.watch_conditions(now=LATER)
    return did["silent"], did["heard"]


def test_more_silent_agents_than_one_run_notes_are_noted_by_the_next(
    monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    monkeypatch.setattr(watches, "MOST", 2)
    made = make_silent("a", "b", "c", "d", "e")
    assert [watch() for _ in range(4)] == [(2, 0), (2, 0), (1, 0), (0, 0)]
    events = Event.objects.filter(kind="agent.silent")
    assert sorted(events.values_list("subject_id", flat=True)) == sorted(each.pk for each in made)
    for agent in made[1:4]:
        call(agent)
    assert [watch() for _ in range(3)] == [(0, 2), (0, 1), (0, 0)]
    found = OngoingCondition.objects.values_list("subject_id", flat=True)
    assert set(found) == {made[0].pk, made[4].pk}


def test_an_older_agent_that_becomes_silent_does_not_end_another_ones_silence(
    monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    """Agents are noted in the order of their ids, and the older one is first in it."""
    monkeypatch.setattr(watches, "MOST", 1)
    older = make_agent("older")
    make_silent("younger")
    assert watch() == (1, 0)
    send(older)
    assert watch() == (1, 0)
    assert not Event.objects.filter(kind="agent.heard").exists()


def test_an_agent_whose_work_ended_was_not_heard() -> None:
    """AGT-25: its silence goes on until it calls."""
    (agent,) = make_silent("away")
    other = make_agent("other", project=make_project("other"))
    send(other)
    assert watch() == (2, 0)
    Instruction.objects.filter(agent=agent).update(state="cancelled", cancelled_at=LATER)
    assert watch() == (0, 0)
    # also if something waits again: it is the same silence
    send(agent)
    assert watch() == (0, 0)
    assert watches.watch_conditions(now=LATER, project=other.project)["heard"] == 0
    assert not Event.objects.filter(kind="agent.heard").exists()
    call(agent)
    assert watch() == (0, 1)
    assert Event.objects.get(kind="agent.heard").subject_id == agent.pk
    assert watch() == (0, 0)


@pytest.mark.parametrize("state", ["queued", "retry"])
def test_an_agent_that_only_has_tasks_of_paused_types_is_not_silent(
    agent: Agent, state: str
) -> None:
    id = make_task(agent, type="build", now=NOW)
    Task.objects.filter(pk=id).update(state=state, due_at=NOW if state == "retry" else None)
    type_pauses.set_paused("build", paused=True, project_id=agent.project_id, stamp=MARA)
    assert watch() == (0, 0)
    make_task(agent, type="deploy", now=NOW)
    assert watch() == (1, 0)


def test_an_agent_is_silent_again_when_the_type_is_resumed(agent: Agent) -> None:
    make_task(agent, type="build", now=NOW)
    for paused, silent in ((True, 0), (False, 1)):
        type_pauses.set_paused("build", paused=paused, project_id=agent.project_id, stamp=MARA)
        assert watch() == (silent, 0)


REFUSE = """create function refuse_event() returns trigger language plpgsql as
$$ begin raise exception 'the disk is full'; end $$;
create trigger refuse_event before insert on ledger_event
for each row execute function refuse_event()"""


@contextmanager
def refuse_events() -> Iterator[None]:
    """Let the database refuse every event."""
    with connection.cursor() as cursor:
        cursor.execute(REFUSE)
        try:
            yield
        finally:
            cursor.execute("drop function refuse_event cascade")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["agent.silent", "agent.heard", "plan.stuck"])
def test_a_condition_whose_event_was_not_written_is_told_by_the_next_run(kind: str) -> None:
    """The condition and its event commit together."""
    agent = make_agent()
    if kind == "plan.stuck":
        bury(agent, import_plan("03-01", tasks=[{}, {"needs": ["task-1"]}]))
        call(agent)
    else:
        send(agent)
    if kind == "agent.heard":
        assert watch() == (1, 0)
        call(agent)
    with refuse_events(), pytest.raises(DatabaseError, match="the disk is full"):
        watch()
    assert not Event.objects.filter(kind=kind).exists()
    watch()
    assert Event.objects.filter(kind=kind).count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_clocks_at_once_note_a_silent_agent_once(elsewhere: Any) -> None:
    make_silent("coder")
    with transaction.atomic():
        assert watch() == (1, 0)
        second = elsewhere(watch)
        with blocked(second):
            pass
    assert second.result(PATIENCE_S) == (0, 0)
    assert Event.objects.filter(kind="agent.silent").count() == 1
