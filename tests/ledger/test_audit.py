"""`manage.py audit_ledger`: quiet where everything adds up, one line for what does not."""

from io import StringIO
from uuid import UUID

import pytest
from django.core.management import call_command

from ledger import audit
from ledger.models import Agent, Attempt, DeadLetter, Task
from retries import leases, reports
from tests.factories import MINUTE, NOW, make_instruction
from tests.retries.test_tasks_flow import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db


def story(agent: Agent) -> dict[str, UUID]:
    """Tasks and instructions of every kind, gone the legal ways."""
    done = make_task(agent)
    reports.succeeded(attempt_of(claim(agent)), now=NOW)
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


def test_a_sound_ledger_adds_up(agent: Agent) -> None:
    story(agent)
    assert list(audit.audit()) == []
    out = StringIO()
    call_command("audit_ledger", stdout=out)
    assert out.getvalue() == "The ledger adds up.\n"


def test_what_does_not_add_up_is_named(agent: Agent) -> None:
    ids = story(agent)
    Task.objects.filter(pk=ids["done"]).update(state="skipped")
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
