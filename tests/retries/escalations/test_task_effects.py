"""Answers to the escalation of a task: grants, undo, dependents."""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from ledger import tasks as facts
from ledger.access.audit import audit
from ledger.errors import Invalid, InvalidTransition
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, DeadLetter, Event, Need, Task
from ledger.states import TaskState
from ledger.tasks import Backoff
from ledger.tokens import TrustedCaller
from retries import breaker_actions, claims, deadletters, in_process
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.escalations import answering
from retries.escalations.answering import UndoTooLate
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved
from retries.escalations.options import list_options
from retries.escalations.record import render_escalation
from retries.models import Escalation
from retries.states import Answer
from retries.tasks import actions as task_actions
from tests.elsewhere import blocked
from tests.factories import MINUTE, NOW, make_agent
from tests.ledger.plans.test_import_writer import imported
from tests.retries.moves import attempt_of, claim, fail, kinds, make_task
from tests.waiting import PATIENCE_S

Elsewhere = Callable[..., Future[Any]]
S = TaskState
MARA = Actor("user", "1", "mara")
SECOND = timedelta(seconds=1)
UNDO = 5 * SECOND
LATER = NOW + MINUTE


def escalated(agent: Agent, *, attempts: int = 3, **more: Any) -> Escalation:
    """The question about a task that has failed so often as it may."""
    more = {"backoff": Backoff(base_delay_ms=0, jitter=False)} | more
    id = make_task(agent, max_attempts=attempts, on_exhausted="escalate", **more)
    for number in range(attempts):
        fail(agent, attempt_of(claim(agent, task=id)), now=NOW, message=f"it broke, {number + 1}")
    return about(id)


def reported(agent: Agent) -> Escalation:
    """The question about a task whose agent says that it is blocked."""
    id = make_task(agent)
    said = Report(status="blocked", message="no access")
    finishing.finish_attempt(
        attempt_of(claim(agent)), said, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW
    )
    return about(id)


def about(id: UUID) -> Escalation:
    return Escalation.objects.select_related("agent", "task").get(task=id, state="open")


def answer(escalation: Escalation, action: str, fix: str = "", **more: Any) -> Escalation:
    named = {name: more.pop(name) for name in ("dependents", "response") if name in more}
    choice = Choice(Answer(action), fix=fix, **named)
    stamp = Stamp(more.pop("actor", MARA), more.pop("now", LATER), more.pop("request_id", ""))
    more = {"channel": "page", "stamp": stamp} | more
    return answering.answer(escalation.pk, choice, among=Escalation.objects.all(), **more)


def undo(escalation: Escalation, *, now: Any = LATER + SECOND) -> Escalation:
    return answering.undo(
        escalation.pk, among=Escalation.objects.all(), stamp=Stamp(MARA, now, "r")
    )


def stands(id: UUID | None) -> tuple[str, str | None, int, int]:
    task = Task.objects.get(pk=id)
    return task.state, task.blocked_reason, task.retry_count, task.attempt_limit


pytestmark = pytest.mark.django_db


# ---- what is told


def test_the_message_tells_how_it_stood(agent: Agent) -> None:
    """S1.38 to S1.41, also after the answer has granted more."""
    asked = escalated(agent, title="Backfill")
    said = render_escalation(asked)
    assert "**Task:** Backfill\n**Plan:** none\n**Attempts:** 3 of 3\n" in said
    assert said.count("| execution_error | it broke, ") == 3
    assert "\n```\nit broke, 3\n```\n" in said
    done = answer(asked, "retry")
    fail(agent, attempt_of(claim(agent, now=LATER)), now=LATER, message="it broke, 4")
    assert Task.objects.get().attempt_limit == 6
    assert render_escalation(Escalation.objects.select_related("task").get(pk=done.pk)) == said


def test_the_message_calls_a_plan_s_task_as_the_state_does(agent: Agent) -> None:
    """S1.38: the seed's {task_name}, which has the number in it."""
    imported(
        {"title": "Create the class", "max_attempts": 1}, {"title": "Use it"}, order="sequential"
    )
    fail(agent, attempt_of(claim(agent)), now=NOW)
    said = render_escalation(Escalation.objects.select_related("task__plan").get())
    assert "**Task:** Task 1: Create the class\n**Plan:** 03-01\n**Attempts:** 1 of 1\n" in said
    assert "(1 task depends on it: Task 2: Use it)\n" in said


# ---- what is granted


@pytest.mark.parametrize(("action", "expected"), [("retry", (0, 6)), ("fix", (3, 4))])
def test_over_the_api_it_is_queued_at_once(
    agent: Agent, action: str, expected: tuple[int, int]
) -> None:
    """S1.44, S1.47, S1.49"""
    asked = escalated(agent)
    done = answer(asked, action, "Trim first" if action == "fix" else "", channel="api")
    assert stands(asked.task_id) == (S.QUEUED, None, *expected) and done.undo_until is None
    assert claim(agent, now=LATER).rows[0]["attempt_number"] == 4
    assert list(audit()) == []


def lower_attempts(id: UUID | None, most: int) -> None:
    task = Task.objects.get(pk=id)
    asked = facts.Change(max_attempts=most)
    facts.change(task.pk, asked, version=task.version, stamp=Stamp(MARA, LATER))


def test_a_lower_budget_leaves_the_attempt_that_an_answer_granted(agent: Agent) -> None:
    asked = escalated(agent)
    lower_attempts(asked.task_id, 2)
    assert stands(asked.task_id) == (S.ESCALATED, None, 3, 3)
    answer(asked, "fix", "Trim first", channel="api")
    lower_attempts(asked.task_id, 1)
    assert stands(asked.task_id) == (S.QUEUED, None, 3, 4)
    assert claim(agent, now=LATER).rows[0]["attempt_limit"] == 4


def test_a_lower_budget_leaves_a_blocked_task_its_next_attempt(agent: Agent) -> None:
    id = make_task(agent, backoff=Backoff(base_delay_ms=0, jitter=False))
    for _ in range(2):
        fail(agent, attempt_of(claim(agent)), now=NOW)
    breaker_actions.trip([agent], reason="Look", stamp=Stamp(MARA, LATER))
    assert claim(agent, task=id, now=LATER).reason == "breaker_open"
    lower_attempts(id, 2)
    assert stands(id) == (S.BLOCKED, "breaker_open", 2, 3)
    breaker_actions.reset([agent], stamp=Stamp(MARA, LATER))
    assert claims.unblock_tasks(stamp=Stamp(SYSTEM, LATER)) == 1
    assert claim(agent, now=LATER).rows[0]["attempt_number"] == 3


def test_an_answer_needs_a_task_that_waits_for_it(agent: Agent) -> None:
    """What moved its task without closing it is told, not passed over."""
    asked = escalated(agent)
    Task.objects.filter(pk=asked.task_id).update(state=S.QUEUED)
    with pytest.raises(InvalidTransition, match="does not wait for an answer"):
        answer(asked, "retry")
    assert about(asked.task_id or asked.pk).is_open


# ---- taken back


@pytest.mark.parametrize("action", ["retry", "fix"])
@pytest.mark.parametrize("make", [escalated, reported])
def test_an_answer_from_the_page_can_be_undone(agent: Agent, make: Any, action: str) -> None:
    asked = make(agent)
    before = stands(asked.task_id)
    done = answer(asked, action, "Trim first" if action == "fix" else "", undo_for=UNDO)
    assert stands(asked.task_id)[0] == S.RETRY and done.undo_until == LATER + UNDO
    assert claim(agent, now=LATER + 4 * SECOND).reason == "no_task"
    again = undo(done)
    assert stands(asked.task_id) == before and again.is_open
    assert (again.pk, again.version, again.action, again.fix) == (asked.pk, 3, None, "")
    assert kinds(asked.task_id or asked.pk)[-2:] == ["task.requeued", "task.answer_undone"]
    assert kinds(asked.pk) == ["escalation.opened", "escalation.resolved", "escalation.reopened"]
    assert list(audit()) == []
    assert answer(again, "skip", now=LATER + MINUTE).action == "skip"


def test_without_an_undo_it_starts_by_itself(agent: Agent) -> None:
    asked = escalated(agent)
    answer(asked, "fix", "Trim first", undo_for=UNDO)
    assert claim(agent, now=LATER + UNDO).rows[0]["attempt_number"] == 4
    with pytest.raises(UndoTooLate, match="the task is running"):
        undo(asked)
    assert list(audit()) == []


def test_too_late_is_too_late(agent: Agent) -> None:
    """The time is over, a person has made it due, it was an answer over the API, or no answer."""
    asked = escalated(agent)
    with pytest.raises(UndoTooLate):
        undo(asked)
    answer(asked, "retry", undo_for=UNDO)
    with pytest.raises(UndoTooLate):
        undo(asked, now=LATER + UNDO)
    task_actions.retry_now([asked.task_id or asked.pk], stamp=Stamp(MARA, LATER + SECOND))
    with pytest.raises(UndoTooLate):
        undo(asked, now=LATER + SECOND)
    other = escalated(make_agent("codex"))
    answer(other, "skip", undo_for=UNDO)
    with pytest.raises(UndoTooLate):
        undo(other)


def test_a_later_wait_of_the_same_task_is_not_undone(agent: Agent) -> None:
    """A backoff of the round that was granted is none of the answer's."""
    asked = escalated(agent)
    answer(asked, "retry", undo_for=UNDO)
    fail(agent, attempt_of(claim(agent, now=LATER + UNDO)), now=LATER + UNDO, retry_after_s=60)
    assert stands(asked.task_id)[0] == S.RETRY
    with pytest.raises(UndoTooLate):
        undo(asked, now=LATER + 2 * SECOND)


@pytest.mark.django_db(transaction=True)
def test_an_undo_waits_for_the_claim_that_has_just_taken_it(elsewhere: Elsewhere) -> None:
    """The agent's clock is ahead: it has taken the task before the time for the undo is over."""
    agent = make_agent()
    asked = answer(escalated(agent), "fix", "Trim first", undo_for=UNDO)
    with transaction.atomic():
        assert claim(agent, now=LATER + UNDO).rows
        future = elsewhere(lambda: undo(asked))
        with blocked(future):
            pass
    with pytest.raises(UndoTooLate, match="the task is running"):
        future.result(PATIENCE_S)
    assert stands(asked.task_id) == (S.RUNNING, None, 3, 4)
    assert Escalation.objects.get().state == "resolved" and list(audit()) == []


@pytest.mark.django_db(transaction=True)
def test_a_claim_passes_over_what_is_being_undone(elsewhere: Elsewhere) -> None:
    agent = make_agent()
    asked = answer(escalated(agent), "fix", "Trim first", undo_for=UNDO)
    with transaction.atomic():
        undo(asked)
        future = elsewhere(lambda: claim(agent, now=LATER + UNDO))
        assert future.result(PATIENCE_S).reason == "no_task"
    assert stands(asked.task_id)[0] == S.ESCALATED and list(audit()) == []


@pytest.mark.django_db(transaction=True)
def test_of_two_undos_one_wins(elsewhere: Elsewhere) -> None:
    asked = answer(escalated(make_agent()), "retry", undo_for=UNDO)
    with transaction.atomic():
        undo(asked)
        future = elsewhere(lambda: undo(asked))
        with blocked(future):
            pass
    with pytest.raises(UndoTooLate):
        future.result(PATIENCE_S)
    assert Event.objects.filter(kind="task.answer_undone").count() == 1


# ---- what depends on it


def family(agent: Agent, root: UUID) -> dict[str, UUID]:
    """Two that wait for the root, one of them also for another task, and one behind each."""
    other = make_task(agent, title="other")
    first = make_task(agent, title="first", needs=[root])
    second = make_task(agent, title="second", needs=[root, other])
    last = make_task(agent, title="last", needs=[first])
    return {"other": other, "first": first, "second": second, "last": last}


def states(made: dict[str, UUID]) -> dict[str, str]:
    rows = Task.objects.in_bulk(made.values())
    return {
        name: f"{rows[id].state} {rows[id].blocked_reason or ''}".strip()
        for name, id in made.items()
    }


AFTER = {
    "continue": {"first": "queued", "second": "blocked dependency", "last": "blocked dependency"},
    "block": {
        "first": "blocked dependency_skipped",
        "second": "blocked dependency_skipped",
        "last": "blocked dependency",
    },
    "skip": {"first": "skipped", "second": "skipped", "last": "skipped"},
}


@pytest.mark.parametrize("choice", list(AFTER))
@pytest.mark.parametrize("how", ["answer", "skip", "dismiss"])
def test_one_says_what_becomes_of_them(agent: Agent, choice: str, how: str) -> None:
    """S1.51: the same three choices for an answer, a task's page and a dead letter."""
    if how == "dismiss":
        root = make_task(agent, max_attempts=1)
        fail(agent, attempt_of(claim(agent)), now=NOW)
    else:
        root = escalated(agent, attempts=1).task_id or agent.pk
    made = family(agent, root)
    match how:
        case "answer":
            answer(about(root), "skip", dependents=choice)
        case "skip":
            done = task_actions.skip([root], dependents=choice, stamp=Stamp(MARA, LATER))
            assert len(done) == (4 if choice == "skip" else 1)
        case "dismiss":
            letters = DeadLetter.objects.all()
            ids = list(letters.values_list("pk", flat=True))
            deadletters.dismiss(ids, among=letters, dependents=choice, stamp=Stamp(MARA, LATER))
    assert states(made) == AFTER[choice] | {"other": "queued"}
    assert not Escalation.objects.open().exists()
    assert list(audit()) == []
    last = Event.objects.filter(subject_id=made["first"]).latest("id")
    key = "because" if choice == "skip" else "without"
    assert last.data[key] == [str(root)]  # the warning


def test_what_was_asked_about_the_skipped_is_closed(agent: Agent) -> None:
    """A dependent can be escalated: its need was added later, as a plan's import does."""
    asked, other = escalated(agent, attempts=1), escalated(agent, attempts=1)
    Need.objects.create(task_id=other.task_id, need_id=asked.task_id)
    answer(asked, "skip", dependents="skip")
    other.refresh_from_db()
    assert (other.state, other.action) == ("withdrawn", None)
    assert stands(other.task_id)[0] == S.SKIPPED


def test_one_that_waits_in_the_queue_becomes_blocked(agent: Agent) -> None:
    asked = escalated(agent, attempts=1)
    late = make_task(agent)
    Need.objects.create(task_id=late, need_id=asked.task_id)
    answer(asked, "skip", dependents="block")
    assert stands(late)[:2] == (S.BLOCKED, "dependency_skipped")
    assert kinds(late)[-1] == "task.blocked"


def test_what_stayed_blocked_is_let_go_on(agent: Agent) -> None:
    """Without the skipped: `first` needs nothing else, `second` has a need that is not met."""
    root = make_task(agent)
    made = family(agent, root)
    task_actions.skip([root], dependents="block", stamp=Stamp(MARA, LATER))
    assert states(made)["second"] == "blocked dependency_skipped"
    found = task_actions.unblock(made.values(), stamp=Stamp(MARA, LATER))
    assert sorted(found) == sorted([made["first"], made["second"]])
    assert states(made) == AFTER["continue"] | {"other": "queued"}
    assert task_actions.unblock(made.values(), stamp=Stamp(MARA, LATER)) == []
    assert kinds(made["first"])[-1] == "task.unblocked"
    told = Event.objects.filter(subject_id=made["second"]).latest("id")
    assert (told.kind, told.to_state, told.data) == ("task.blocked", None, {"reason": "dependency"})
    in_process.report_success(
        attempt_of(claim(agent, task=made["other"])), stamp=Stamp(SYSTEM, LATER)
    )
    assert states(made)["second"] == "queued"
    assert list(audit()) == []


def test_the_option_names_the_first_of_them(agent: Agent) -> None:
    """S1.51"""
    asked = escalated(agent, attempts=1)
    for title in ("Use it", "x" * 200, "Tell\nall", "Look", "Clean up"):
        make_task(agent, title=title, needs=[asked.task_id])
    (skip,) = [option for option in list_options(asked) if option.name == Answer.SKIP]
    assert skip.description.endswith(f": Use it, {'x' * 59}…, Tell all, and 2 more.")


def test_the_option_says_how_many(agent: Agent) -> None:
    asked = escalated(agent, attempts=1)
    offered = {option.name: option for option in list_options(asked)}
    assert offered[Answer.SKIP].description == "Nothing depends on it."
    assert offered[Answer.SKIP].dependents == ()
    family(agent, asked.task_id or agent.pk)
    offered = {option.name: option for option in list_options(asked)}
    skips = "2 tasks depend on it and may fail without it: first, second."
    assert offered[Answer.SKIP].description == skips
    assert [way.title for way in offered[Answer.SKIP].dependents] == [
        "All 2 continue without it",
        "They stay blocked until you decide",
        "Skip them too and their dependents: 3 tasks in total",
    ]
    assert "(2 tasks depend on it: first, second)" in render_escalation(asked)


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("skip", {"dependents": "explode"}),
        ("retry", {"dependents": "skip"}),
        ("answer", {"fix": "yes"}),
    ],
)
def test_a_choice_that_does_not_fit_a_task(agent: Agent, action: str, more: Any) -> None:
    asked = escalated(agent, attempts=1)
    with pytest.raises(Invalid):
        answer(asked, action, **more)
    assert about(asked.task_id or agent.pk).is_open


def test_a_fix_of_a_task_may_have_4000_characters_of_any_kind(agent: Agent) -> None:
    asked = escalated(agent, attempts=1)
    assert len(answer(asked, "fix", "🙂" * 4000).fix) == 4000
    with pytest.raises(AlreadyResolved):
        answer(asked, "fix", "x")
