"""Answers to the escalation of an instruction."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from ledger import instructions
from ledger.errors import Invalid, NotFound, VersionMismatch
from ledger.instructions import Expect
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Event, Instruction
from ledger.states import InstructionState
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved
from retries.escalations.options import list_options
from retries.models import Escalation
from retries.states import TEXT_ANSWERS, Answer, EscalationState
from tests.elsewhere import blocked
from tests.factories import MINUTE, NOW, make_agent, pull, send, state_of, tick
from tests.waiting import PATIENCE_S

MARA = Actor("user", "1", "mara")


def ignored(agent: Agent, content: str = "Check", **more: Any) -> Escalation:
    """An open escalation for an instruction that was just given up."""
    send(agent, content, max_retries=0, on_failed="escalate", **more)
    pull(agent)
    tick(NOW)
    return Escalation.objects.open().select_related("agent", "instruction").latest("id")


def answer(escalation: Escalation, action: str, fix: str = "", **more: Any) -> Escalation:
    choice = Choice(Answer(action), fix=fix, note=more.pop("note", ""))
    stamp = Stamp(
        more.pop("actor", MARA), more.pop("now", NOW + MINUTE), more.pop("request_id", "")
    )
    more = {"channel": "page", "stamp": stamp} | more
    return answering.answer(escalation.id, choice, among=Escalation.objects.all(), **more)


@pytest.mark.django_db
def test_a_failed_instruction_opens_an_escalation_in_its_transaction(agent: Agent) -> None:
    escalation = ignored(agent)
    assert (escalation.state, escalation.reason, escalation.version) == (
        "open",
        "instruction_ignored",
        1,
    )
    assert (
        escalation.instruction is not None
        and escalation.instruction.state == InstructionState.FAILED
    )
    failed, opened = Event.objects.order_by("-id")[:2][::-1]
    assert {failed.kind, opened.kind} == {"instruction.failed", "escalation.opened"}
    assert failed.tx == opened.tx


@pytest.mark.django_db
def test_on_failed_record_opens_no_escalation(agent: Agent) -> None:
    send(agent, max_retries=0, on_failed="record")
    pull(agent)
    assert tick(NOW) == (0, 1) and not Escalation.objects.exists()


@pytest.mark.django_db
def test_retry_sends_the_same_text_first(agent: Agent) -> None:
    expect = Expect("done", {"ok": True})
    escalation = ignored(agent, expect=expect)
    send(agent, "something else")
    done = answer(escalation, "retry", note="try again")
    assert done.state == EscalationState.RESOLVED and done.resent_as is not None
    new = done.resent_as
    assert (new.content, new.resend_of_id, new.retry_count) == (
        "Check",
        escalation.instruction_id,
        0,
    )
    assert (new.expect_type, new.expect_match, new.on_failed) == ("done", {"ok": True}, "escalate")
    assert pull(agent, limit=1) == ["Check"]
    assert (done.answered_by_name, done.channel, done.note) == ("mara", "page", "try again")
    event = Event.objects.get(kind="escalation.resolved")
    assert (event.from_state, event.to_state, event.actor_name) == ("open", "resolved", "mara")


@pytest.mark.django_db
def test_fix_sends_the_persons_text(agent: Agent) -> None:
    escalation = ignored(agent)
    done = answer(escalation, "fix", "Run `openspec --version`")
    assert pull(agent) == ["Run `openspec --version`"]
    assert done.resent_as is not None and done.resent_as.resend_of_id == escalation.instruction_id


@pytest.mark.django_db
def test_skip_leaves_the_instruction_failed(agent: Agent) -> None:
    escalation = ignored(agent)
    answer(escalation, "skip")
    assert pull(agent) == [] and state_of(str(escalation.instruction_id)) == InstructionState.FAILED


@pytest.mark.django_db
def test_abort_cancels_the_agents_pending_instructions(agent: Agent) -> None:
    escalation = ignored(agent)
    waiting, foreign = send(agent), send(make_agent("codex"))
    assert answer(escalation, "abort").cancelled == 1
    assert (state_of(waiting), state_of(foreign)) == (
        InstructionState.CANCELLED,
        InstructionState.QUEUED,
    )


@pytest.mark.django_db
@pytest.mark.parametrize("action", list(Answer))
def test_an_answer_is_final(agent: Agent, action: str) -> None:
    escalation = ignored(agent)
    answer(escalation, "skip")
    events, rows = Event.objects.count(), Instruction.objects.count()
    with pytest.raises(AlreadyResolved) as refused:
        answer(escalation, action, "x" if action in TEXT_ANSWERS else "")
    assert refused.value.more["resolution"]["action"] == "skip"
    assert refused.value.more["resolution"]["by"] == {"type": "user", "name": "mara"}
    assert (Event.objects.count(), Instruction.objects.count()) == (events, rows)


@pytest.mark.django_db
def test_an_answer_to_another_version_is_refused(agent: Agent) -> None:
    escalation = ignored(agent)
    with pytest.raises(VersionMismatch):
        answer(escalation, "skip", version=2)
    assert Escalation.objects.get().is_open
    assert answer(escalation, "skip", version=1).version == 2


@pytest.mark.django_db
def test_an_escalation_outside_of_among_cannot_be_answered(agent: Agent) -> None:
    escalation = ignored(agent)
    with pytest.raises(NotFound):
        answering.answer(
            escalation.id,
            Choice(Answer.SKIP),
            among=Escalation.objects.filter(agent=make_agent("codex")),
            stamp=Stamp(MARA),
            channel="api",
        )


@pytest.mark.django_db
@pytest.mark.parametrize(
    "choice",
    [
        Choice(Answer.FIX),
        Choice(Answer.FIX, fix=" \n"),
        Choice(Answer.FIX, fix="x" * 4001),
        Choice(Answer.FIX, fix="a\x00"),
        Choice(Answer.SKIP, fix="words"),
        Choice(Answer.SKIP, note="x" * 2001),
    ],
)
def test_an_invalid_choice_changes_nothing(agent: Agent, choice: Choice) -> None:
    escalation = ignored(agent)
    with pytest.raises(Invalid):
        answering.answer(
            escalation.id, choice, among=Escalation.objects.all(), stamp=Stamp(MARA), channel="page"
        )
    assert Escalation.objects.get().is_open and not Event.objects.filter(kind="escalation.resolved")


@pytest.mark.django_db
def test_the_options_name_the_consequence(agent: Agent) -> None:
    escalation = ignored(agent)
    send(agent)
    send(agent)
    offered = {option.name: option for option in list_options(escalation)}
    assert list(offered) == [Answer.FIX, Answer.RETRY, Answer.SKIP, Answer.ABORT]
    assert "2 pending instructions for coder" in offered[Answer.ABORT].description
    assert offered[Answer.FIX].requires_text and offered[Answer.ABORT].confirm


@pytest.mark.django_db
def test_an_instruction_has_at_most_one_open_escalation(agent: Agent) -> None:
    escalation = ignored(agent)
    escalation.pk = None
    with pytest.raises(IntegrityError, match="escalation_open_once"), transaction.atomic():
        escalation.save(force_insert=True)


@pytest.mark.django_db(transaction=True)
def test_one_of_two_simultaneous_answers_wins(elsewhere: Callable[..., Future[Any]]) -> None:
    escalation = ignored(make_agent())
    jonas = Actor("user", "2", "jonas")
    with transaction.atomic():
        answer(escalation, "skip")
        racing = elsewhere(lambda: answer(escalation, "abort", stamp=Stamp(jonas)))
        with blocked(racing):
            pass
    with pytest.raises(AlreadyResolved, match="mara answered 'skip'"):
        racing.result(PATIENCE_S)
    assert Event.objects.filter(kind="escalation.resolved").count() == 1


@pytest.mark.django_db
def test_a_second_failure_after_a_retry_escalates_again(agent: Agent) -> None:
    first = ignored(agent)
    answer(first, "retry")
    pull(agent, now=NOW + MINUTE)
    tick(NOW + 2 * MINUTE)
    again = Escalation.objects.open().get()
    assert again.id != first.id and again.instruction is not None
    assert again.instruction.resend_of_id == first.instruction_id


@pytest.mark.django_db
def test_a_late_ack_does_not_answer_the_escalation(agent: Agent) -> None:
    escalation = ignored(agent)
    instructions.acknowledge_instruction(escalation.instruction_id or "", now=NOW)
    assert Escalation.objects.get().is_open
