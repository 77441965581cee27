"""What holds for every verb: its button and its rows agree, and its words are complete."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Q
from django.utils import timezone

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Breaker, DeadLetter, Instruction, Plan, StandingInstruction, Task
from ledger.states import BreakerState, InstructionState, TaskState
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation, FailurePattern, PermissionRule
from retries.permissions.rules import revoke_rule
from retries.states import Answer, PatternState
from retries.verbs import (
    agents,
    dead_letters,
    escalations,
    instructions,
    patterns,
    permission_rules,
    plans,
    rules,
)
from retries.verbs import tasks as task_verbs
from retries.verbs.verb import Verb
from tests.dashboard.worked import buried, make_plan, make_task
from tests.factories import make_agent, make_instruction
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.operations.test_verbs import make_all_states, report_blocked
from tests.retries.permissions.asking import ask as ask_permission
from tests.retries.permissions.asking import make_rule as make_permission_rule

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        *(*agents.PAGE, *agents.ADMIN, *dead_letters.VERBS, *escalations.VERBS),
        *(*escalations.ADMIN, *instructions.ADMIN, *patterns.ADMIN, *plans.VERBS),
        *(*rules.VERBS, *task_verbs.VERBS, *permission_rules.VERBS),
        *(*task_verbs.PEOPLE, *dead_letters.PEOPLE, *patterns.PEOPLE),
    )
}
MODELS = (
    Agent,
    Task,
    DeadLetter,
    Escalation,
    Instruction,
    FailurePattern,
    Plan,
    StandingInstruction,
    PermissionRule,
)


@pytest.fixture
def rows(agent: Agent) -> list[Any]:
    """Rows in each state, with and without what a condition reads through another row."""
    now = timezone.now() - timedelta(minutes=5)
    tasks = make_all_states(agent, now)
    Task.objects.filter(pk=tasks["running"].pk).update(abort_requested_at=now)
    Task.objects.filter(pk=tasks["blocked"].pk).update(blocked_reason="dependency_skipped")
    report_blocked(agent, now)
    answered = make_task(TaskState.ESCALATED, agent=agent, now=now).escalation_set.get()
    skip, stamp = Choice(Answer.SKIP), Stamp(SYSTEM, now)
    answering.answer(answered.pk, skip, among=Escalation.objects.all(), stamp=stamp, channel="page")
    question = make_task(TaskState.ESCALATED, agent=agent, now=now)
    Escalation.objects.filter(task=question).update(reason="agent_question")
    for state in InstructionState:
        make_instruction(state, agent=agent, content=state)
    make_instruction(InstructionState.DELIVERED, agent=agent, content="plain", tracked=False)
    Instruction.objects.filter(content="plain").update(tracked=False)
    letter, closed = buried(agent=agent, now=now), buried(agent=agent, now=now)
    DeadLetter.objects.filter(pk=closed.pk).update(closed_at=now, closed_as="dismissed")
    stamps: tuple[dict[str, Any], ...] = (
        {},
        {"paused_at": now},
        {"completed_at": now},
        {"aborted_at": now},
    )
    for number, columns in enumerate(stamps):
        plan, _ = make_plan(f"0{number}-01", [("One", [])], agent=agent, now=now)
        Plan.objects.filter(pk=plan.pk).update(**columns)
    aborted = Plan.objects.get(aborted_at=now)
    Task.objects.filter(pk=letter.task_id).update(plan=aborted, ref=f"{aborted.ref}:task-9", run=1)
    buried(agent=agent, now=now)
    for number, state in enumerate(PatternState):
        FailurePattern.objects.create(
            project=agent.project,
            fingerprint=f"{number}" * 16,
            template=state,
            state=state,
            state_at=now,
            updated_at=now,
            first_seen=now,
            last_seen=now,
        )
    for values in ({"paused": True}, {"paused": False}, {"paused": True, "retired_at": now}):
        StandingInstruction.objects.filter(pk=make_rule(str(values)).pk).update(**values)
    ask_permission(agent, now=now)
    revoked = make_permission_rule(agent, "npm ci", now=now)
    revoke_rule(revoked.pk, among=PermissionRule.objects.all(), stamp=stamp)
    make_permission_rule(agent, "npm test", now=now)
    for state in BreakerState:
        other = make_agent(f"agent {state}")
        Breaker.objects.create(agent=other, state=state, opened_at=now, updated_at=now)
        Agent.objects.filter(pk=other.pk).update(paused=state == BreakerState.OPEN)
    return [row for model in MODELS for row in model._default_manager.order_by("pk")]


@pytest.mark.django_db
def test_a_verb_has_a_button_for_the_rows_that_it_can_change(rows: list[Any]) -> None:
    seen = set()
    for verb in VERBS.values():
        if not isinstance(verb.where, Q):
            continue
        own = [row for row in rows if type(row) is verb.model]
        taken = set(verb.narrow(verb.model._default_manager.all()).values_list("pk", flat=True))
        assert {row.pk for row in own if verb.suits(row)} == taken != set(), verb.name
        seen.add(verb.noun)
        if verb.where != Q():
            assert len(taken) < len(own), f"{verb.name} takes every row"
    assert seen == {verb.noun for verb in VERBS.values()}


@pytest.mark.parametrize("name", sorted(VERBS))
def test_the_words_of_a_verb_are_complete(name: str) -> None:
    verb = VERBS[name]
    assert verb.do[0].isupper() and verb.done.islower() and verb.button
    assert bool(verb.run) is not bool(verb.each)
    assert re.fullmatch(r"[a-z_]+\.[a-z_]+", name)
    assert verb.slug or verb.admin or verb.doing, "it is offered nowhere"
    if verb.question and verb.noun != "agent":
        assert verb.question.endswith("?") and verb.consequence.endswith(".")
