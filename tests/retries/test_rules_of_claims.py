"""Standing instructions of claims: sent in the transaction of the claim."""

import pytest

from ledger.instructions import acknowledge_instruction
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Breaker, Event, Instruction, Plan, Task
from ledger.signal_matching import report_signal
from ledger.standing_instructions.editing import On
from ledger.tokens import TrustedCaller
from retries import breaker_actions
from retries.claims import ClaimResult
from tests.conftest import Api
from tests.factories import MINUTE, NOW, make_agent, make_project, pull
from tests.ledger.plans.test_import_writer import imported
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.moves import attempt_of, claim, make_task

pytestmark = pytest.mark.django_db


def on_claim(**more: object) -> On:
    return On(event="task_claimed", **more)  # type: ignore[arg-type]


def test_a_claim_sends_what_its_rules_say(agent: Agent) -> None:
    rule = make_rule("Add a changelog entry.", on=on_claim(type="fix"), hold_stop=True)
    other = make_task(agent, type="code")
    assert claim(agent, task=other).rows and not Instruction.objects.exists()
    task = make_task(agent, type="fix")
    result = claim(agent, task=task, worker_id="session-1")
    row = Instruction.objects.get()
    assert (row.rule, row.task_id, row.once_key) == (rule, task, None)
    assert row.trigger is not None
    assert row.trigger["task"] == str(task) and row.trigger["attempt"] == 1
    assert Event.objects.filter(kind="task.claimed").count() == 2
    again = claim(agent, worker_id="session-1", now=NOW + MINUTE)
    assert again.rows[0]["resumed"] and attempt_of(again) == attempt_of(result)
    pull(agent)
    assert Instruction.objects.count() == 1


def test_the_answer_to_the_claim_counts_what_was_sent(coder: Api, agent: Agent) -> None:
    make_rule("Add a changelog entry.", on=on_claim())
    make_task(agent)
    body = coder("POST", "/claims").body
    assert (len(body["data"]), body["pending_instructions"]) == (1, 1)
    assert coder("POST", "/claims").body["reason"] == "no_task"


@pytest.mark.parametrize(("once_per", "keys"), [("attempt", 2), ("session", 1), ("trigger", 2)])
def test_once_per_counts_attempts_and_workers(agent: Agent, once_per: str, keys: int) -> None:
    make_rule("Look", on=on_claim(), once_per=once_per, expect=None)
    for _ in range(2):
        make_task(agent)
        claim(agent, worker_id="w1", resume=False)
        for row in Instruction.objects.filter(state="queued"):
            acknowledge_instruction(row.id, now=NOW)
    assert Instruction.objects.count() == keys


def test_a_rule_of_a_plan_is_for_its_tasks(agent: Agent) -> None:
    imported({"title": "One"}, agent="coder")
    make_rule("Look", on=on_claim(plan=Plan.objects.get()), expect=None)
    alone = make_task(agent)
    assert claim(agent, task=alone).rows and not Instruction.objects.exists()
    planned = Task.objects.get(ref="03-01:task-1")
    claim(agent, task=planned.id)
    assert Instruction.objects.get().task_id == planned.id


def test_rules_stand_beside_limits_and_breakers(agent: Agent) -> None:
    make_rule("Look", on=on_claim(), expect=None)
    Agent.objects.filter(pk=agent.pk).update(concurrency=1)
    make_task(agent)
    make_task(agent)
    assert len(claim(agent, limit=5).rows) == 1 and Instruction.objects.count() == 1
    assert claim(agent).reason == "concurrency_limit"
    Agent.objects.filter(pk=agent.pk).update(concurrency=None)
    breaker_actions.trip([agent], reason="test", stamp=Stamp(SYSTEM, NOW))
    assert claim(agent).reason == "breaker_open"
    Breaker.objects.update(state="half_open")
    assert len(claim(agent, limit=5).rows) == 1


def test_other_agents_and_projects_claim_as_before(agent: Agent) -> None:
    make_rule("Look", on=on_claim(), agent=make_agent("codex"))
    make_rule("Elsewhere", on=on_claim(), project=make_project("elsewhere"))
    make_task(agent)
    assert isinstance(claim(agent), ClaimResult) and not Instruction.objects.exists()


def test_a_signal_belongs_to_the_only_live_attempt(agent: Agent) -> None:
    make_rule(once_per="attempt")
    task = make_task(agent)
    attempt = attempt_of(claim(agent))
    caller = TrustedCaller(SYSTEM, agent=agent)
    data = {"path": "src/a.py"}
    [id] = report_signal("fs_write", data, caller=caller, now=NOW).sent
    row = Instruction.objects.get(pk=id)
    assert (row.task_id, row.once_key) == (task, f"attempt:{attempt}")
    report_signal("fs_command", {"line": "make test"}, caller=caller, now=NOW)
    assert report_signal("fs_write", data, caller=caller, now=NOW).sent == []
    make_task(agent)
    second = attempt_of(claim(agent))
    # two attempts are live: the signal has to say which one it belongs to
    found = report_signal("fs_write", data, caller=caller, attempt=second, now=NOW).sent
    assert Instruction.objects.get(pk=found[0]).once_key == f"attempt:{second}"
