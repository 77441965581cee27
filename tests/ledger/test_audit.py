"""`manage.py audit_ledger`: one line for each inconsistency."""

from io import StringIO
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command

from ledger import instructions, journal
from ledger.access import audit
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import (
    Agent,
    Attempt,
    Breaker,
    DeadLetter,
    Event,
    Instruction,
    Plan,
    StandingInstruction,
    Task,
)
from ledger.signal_matching import report_signal
from ledger.tokens import TrustedCaller
from retries import breaker_actions, in_process
from retries.attempts import leases
from retries.tasks.holds import hold_stop
from tests.factories import MINUTE, NOW, make_agent, make_instruction, make_project
from tests.ledger.plans.test_import_writer import imported
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db


def story(agent: Agent) -> dict[str, UUID]:
    """Tasks and instructions of every kind, gone the legal ways."""
    done = make_task(agent)
    in_process.report_success(attempt_of(claim(agent)), stamp=Stamp(SYSTEM, NOW))
    buried = make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    late = make_task(agent)
    claim(agent)
    leases.expire(now=NOW + MINUTE * 6)
    waits = make_task(agent, needs=[buried])
    runs = make_task(agent)
    claim(agent, task=runs)
    for state in ("acknowledged", "failed", "cancelled"):
        make_instruction(state, agent=agent)
    return {"done": done, "buried": buried, "late": late, "waits": waits, "runs": runs}


def test_a_late_ack_is_no_move(agent: Agent) -> None:
    late = make_instruction("failed", agent=agent).id
    instructions.acknowledge_instruction(late, now=NOW + MINUTE)
    event = Event.objects.get(kind="instruction.acknowledged_late")
    assert (event.from_state, event.to_state) == (None, None)
    assert list(audit.audit()) == []
    # as an early version wrote it
    journal.record(
        Kind.INSTRUCTION_ACKNOWLEDGED_LATE,
        subject_type="instruction",
        subject_id=late,
        project_id=agent.project_id,
        from_state="failed",
        to_state="failed",
        stamp=Stamp(SYSTEM, NOW + MINUTE),
    )
    assert list(audit.audit()) == []


def test_a_sound_ledger_adds_up(agent: Agent) -> None:
    story(agent)
    assert list(audit.audit()) == []
    out = StringIO()
    call_command("audit_ledger", stdout=out)
    assert out.getvalue() == "The ledger is consistent.\n"


def test_what_does_not_add_up_is_named(agent: Agent) -> None:
    ids = story(agent)
    Task.objects.filter(pk=ids["done"]).update(state="skipped", proof=None)
    Task.objects.filter(pk=ids["waits"]).update(unmet=2, needed_by=1)
    DeadLetter.objects.all().delete()
    Attempt.objects.filter(task_id=ids["runs"]).update(outcome="released", ended_at=NOW)
    out = StringIO()
    with pytest.raises(SystemExit) as stopped:
        call_command("audit_ledger", stdout=out)
    assert stopped.value.code == 1
    assert sorted(out.getvalue().splitlines()) == sorted(
        [
            f"task {ids['done']}: is skipped, the journal says done",
            f"needs {ids['waits']}: unmet is 2, 1 needs are not met",
            f"needed {ids['waits']}: needed_by is 1, 0 tasks need it",
            f"dead letter {ids['buried']}: failed without a dead letter",
            f"running {ids['runs']}: runs without a live attempt",
        ]
    )


def test_a_task_of_an_agent_that_is_not_there_is_named(agent: Agent) -> None:
    ids = story(agent)
    Task.objects.filter(pk=ids["late"]).update(agent_id=uuid4())
    assert f"agent {ids['late']}: is of an agent that its project does not have" in [
        str(each) for each in audit.audit()
    ]


def test_an_attempt_of_a_task_that_is_not_there_is_named(agent: Agent) -> None:
    ids, nowhere = story(agent), uuid4()
    attempt = Attempt.objects.get(task_id=ids["done"])
    Attempt.objects.filter(pk=attempt.pk).update(task_id=nowhere)
    assert [str(each) for each in audit.audit()] == [
        f"attempt of {attempt.pk}: is of task {nowhere}, which is not there"
    ]


def test_what_was_freed_too_early_is_named(agent: Agent) -> None:
    ids = story(agent)
    Task.objects.filter(pk=ids["waits"]).update(unmet=0)
    assert [str(each) for each in audit.audit()] == [
        f"needs {ids['waits']}: unmet is 0, 1 needs are not met"
    ]


def test_a_breaker_that_the_journal_knows_otherwise_is_named(agent: Agent) -> None:
    breaker_actions.trip([agent], reason="by hand", stamp=Stamp(SYSTEM, NOW))
    assert list(audit.audit()) == []
    Breaker.objects.update(state="half_open")
    assert [str(each) for each in audit.audit()] == [
        f"breaker of {agent.pk}: has a breaker that is half_open, the journal says open"
    ]


def test_plans_that_do_not_add_up_are_named(agent: Agent) -> None:
    plan = imported({}, {"needs": "task-1"}, {}).plan
    assert list(audit.audit()) == []
    one, two, three = Task.objects.order_by("pk")
    Task.objects.filter(pk=one.pk).update(replaced_by=three)
    Task.objects.filter(pk=two.pk).update(run=2)
    Task.objects.filter(pk=three.pk).update(ref="03-02:task-3")
    Plan.objects.update(aborted_at=NOW)
    found = [str(each) for each in audit.audit()]
    assert sorted(found) == sorted(
        [
            f"place {two.pk}: 03-01:task-2 of run 2 stands in plan 03-01, which is at run 1",
            f"place {three.pk}: 03-02:task-3 of run 1 stands in plan 03-01, which is at run 1",
            f"replaced {one.pk}: is queued though another took its place",
            f"file of {plan.pk}: a task of its file became 03-01:task-3, which is not there",
            f"needs of a plan {two.pk}: waits for 03-01:task-1, which another took the place of",
            f"aborted plan {one.pk}: is queued in a plan that was aborted",
            f"aborted plan {two.pk}: is blocked in a plan that was aborted",
            f"aborted plan {three.pk}: is queued in a plan that was aborted",
        ]
    )
    Task.objects.filter(pk=two.pk).update(ref="03-02:task-3", run=plan.run + 1)
    assert f"ref {plan.pk}: 03-02:task-3 is current 2 times" in map(str, audit.audit())


def test_rules_and_holds_that_do_not_add_up_are_named(agent: Agent) -> None:
    rule = make_rule(hold_stop=True)
    caller = TrustedCaller(SYSTEM, agent=agent)
    [id] = report_signal("fs_write", {"path": "src/a"}, caller=caller, now=NOW).sent
    hold_stop(agent, stamp=Stamp(SYSTEM, NOW))
    assert list(audit.audit()) == []
    elsewhere = make_agent("coder", project=make_project("elsewhere"))
    StandingInstruction.objects.update(paused=True, agent=elsewhere)
    Instruction.objects.update(holds=3, project=elsewhere.project)
    assert sorted(map(str, audit.audit())) == [
        f"holds {id}: held the stop 3 times, the journal says 1",
        f"instruction of a rule {id}: was sent by the rule {rule.id} of another project",
        f"rule {rule.id}: is paused, the journal says active",
        f"scope of a rule {rule.id}: is for an agent or a plan that its project does not have",
    ]
