"""Every verb of operations: the rows it takes, what it does to each, and why it leaves one."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from ledger.errors import Invalid, NotFound
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, DeadLetter, Event, Instruction, Task
from ledger.states import TaskState
from ledger.tasks.changing import Change, change
from ledger.tasks.lineage import fetch_task
from ledger.tokens import TrustedCaller
from retries import claims, deadletters
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.models import Escalation, Operation
from retries.operations.registry import VERBS, find_verb
from retries.operations.starting import NothingToChange, count_selection
from retries.retry_context.history import render_next_context
from retries.tasks import actions as task_actions
from tests.dashboard.worked import buried, claimed, enqueued, make_task
from tests.factories import make_agent, make_instruction, make_project
from tests.retries.operations.worlds import list_kinds, list_refusals, run, start

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return timezone.now() - timedelta(minutes=5)


def make_all_states(agent: Agent, now: datetime) -> dict[str, Task]:
    """Make one task in each state, in a way that opens no breaker."""
    why = {"type": "verification_failed"}
    return {
        str(state): make_task(state, f"Task {state}", agent=agent, now=now, why=why)
        for state in TaskState
    }


def test_retry_does_what_each_state_needs(agent: Agent, now: datetime) -> None:
    """A retry comes due, an escalation is answered, a failed task is replayed; others are left."""
    tasks = make_all_states(agent, now)
    everything = Task.objects.filter(title__startswith="Task ")
    counted = count_selection("task.retry", everything)
    assert (counted.matching, counted.legal, counted.left) == (9, 3, 6)

    done = run(start("task.retry", everything, now=now, reason="lxml is installed"), now=now)

    assert (done.state, done.matching, done.total, done.changed) == ("done", 9, 3, 3)
    assert list_kinds(tasks["retry"].pk)[-1] == "task.due"
    assert list_kinds(tasks["escalated"].pk)[-1] == "task.requeued"
    assert list_kinds(tasks["failed"].pk)[-1] == "task.replayed"
    answered = Escalation.objects.get(task=tasks["escalated"])
    assert (answered.action, answered.answered_by_name) == ("retry", "mara")
    untouched = Task.objects.get(pk=tasks["queued"].pk)
    assert untouched.version == tasks["queued"].version
    assert list_kinds(done.pk) == ["operation.started", "operation.completed"]


def test_each_task_verb_takes_the_rows_that_its_own_verb_can_change(
    agent: Agent, now: datetime
) -> None:
    """What is counted before is what the verb then changes, for each verb on one of each state."""
    cases = {
        "task.retry_now": ({"retry"}, {}),
        "task.skip": ({"queued", "retry", "blocked", "escalated"}, {"dependents": "continue"}),
        "task.abort": ({"queued", "running", "retry", "blocked", "escalated"}, {}),
        "task.prioritize": (
            {"queued", "running", "retry", "blocked", "escalated"},
            {"priority": "7"},
        ),
    }
    for number, (verb, (states, options)) in enumerate(cases.items()):
        tasks = make_all_states(agent, now + timedelta(seconds=number))
        chosen = Task.objects.filter(pk__in=[task.pk for task in tasks.values()])
        done = run(start(verb, chosen, options=options, now=now), now=now)
        taken = {str(id) for id in done.items.values_list("subject_id", flat=True)}
        assert taken == {str(tasks[state].pk) for state in states}, verb
        assert (done.changed, done.refused) == (len(states), 0), verb
    assert Task.objects.filter(priority=7).count() == 5


def test_the_reason_is_in_the_journal_of_each_row(agent: Agent, now: datetime) -> None:
    make_agent("tester")
    queued = [enqueued(agent, f"Task {number}", now=now) for number in range(4)]
    letters = [buried(agent=agent, now=now) for _ in range(2)]
    asked = make_task(TaskState.ESCALATED, agent=agent, now=now)
    sent = [make_instruction(state, agent=agent) for state in ("queued", "delivered")]
    waiting = make_task(TaskState.RETRY, agent=agent, now=now)
    for verb, options, row, subject, kind in (
        ("task.skip", {}, queued[0], queued[0], "task.skipped"),
        ("task.abort", {}, queued[1], queued[1], "task.aborted"),
        ("task.prioritize", {"priority": "7"}, queued[2], queued[2], "task.changed"),
        ("task.reassign", {"agent": "tester"}, queued[3], queued[3], "task.changed"),
        ("task.assign", {"user": "mara"}, queued[2], queued[2], "task.assigned"),
        ("task.retry_now", {}, waiting.pk, waiting.pk, "task.due"),
        ("task.retry", {}, asked.pk, asked.escalation_set.get().pk, "escalation.resolved"),
        ("dead_letter.replay", {}, letters[0].pk, letters[0].task_id, "task.replayed"),
        ("dead_letter.dismiss", {}, letters[1].pk, letters[1].task_id, "task.dismissed"),
        ("instruction.cancel", {}, sent[0].pk, sent[0].pk, "instruction.cancelled"),
        ("instruction.send_again", {}, sent[1].pk, sent[1].pk, "instruction.requeued"),
    ):
        chosen = find_verb(verb).model._default_manager.filter(pk=row)
        run(start(verb, chosen, options=options, reason="wrong branch", now=now), now=now)
        event = Event.objects.filter(subject_id=subject, kind=kind, actor_name="mara").get()
        assert (event.data.get("note") or event.data["reason"]) == "wrong branch", verb
        assert event.request_id == "req_1", verb


def report_blocked(agent: Agent, now: datetime) -> Task:
    """Make a task that its agent reported as blocked."""
    id = enqueued(agent, "Task reported", now=now)
    attempt = claimed(agent, id, now=now)
    said = Report(status="blocked", message="The key is missing")
    finishing.finish_attempt(attempt, said, caller=TrustedCaller(SYSTEM, agent=agent), now=now)
    return Task.objects.get(pk=id)


def test_an_instruction_is_the_answer_to_each_question_that_needs_no_reading(
    agent: Agent, now: datetime
) -> None:
    """Escalated and reported tasks get one attempt that is told it; every other task is left."""
    tasks = make_all_states(agent, now)
    reported = report_blocked(agent, now)
    question = make_task(TaskState.ESCALATED, "Task asked", agent=agent, now=now)
    Escalation.objects.filter(task=question).update(reason="agent_question")
    everything = Task.objects.filter(title__startswith="Task ")
    options = {"fix": "  Install lxml first\n"}

    done = run(start("task.fix", everything, options=options, reason="mirror", now=now), now=now)

    taken = set(done.items.values_list("subject_id", flat=True))
    assert taken == {tasks["escalated"].pk, reported.pk}
    assert (done.matching, done.changed, done.refused) == (11, 2, 0)
    assert done.options == {"fix": "Install lxml first", "reason": "mirror"}
    for id in taken:
        answered = Escalation.objects.get(task=id)
        assert (answered.action, answered.fix) == ("fix", "Install lxml first")
        assert list_kinds(id)[-1] == "task.requeued"
        task = Task.objects.get(pk=id)
        assert (task.state, task.attempt_limit) == ("queued", task.attempts + 1)
        assert "User provided fix: Install lxml first" in render_next_context(fetch_task(id))
    assert Escalation.objects.get(task=question).is_open


def test_an_instruction_is_refused_to_a_task_that_moved_on(agent: Agent, now: datetime) -> None:
    tasks = [make_task(TaskState.ESCALATED, agent=agent, now=now) for _ in range(3)]
    rows = Task.objects.filter(pk__in=[task.pk for task in tasks])
    operation = start("task.fix", rows, options={"fix": "Look again"}, now=now)
    task_actions.skip([tasks[0].pk], stamp=Stamp(SYSTEM, now))
    Escalation.objects.filter(task=tasks[1]).update(reason="agent_question")
    run(operation, now=now)
    assert (operation.changed, operation.refused) == (1, 2)
    assert list_refusals(operation) == [
        (tasks[0].pk, "State is now “skipped”"),
        (tasks[1].pk, "A person has to read its question"),
    ]


def test_reassign_hands_waiting_tasks_to_an_agent_of_their_own_project(
    agent: Agent, now: datetime
) -> None:
    """State and attempts stay; running and finished tasks stay, and so do those without an agent
    of the name in their project."""
    tester = make_agent("tester")
    far = make_agent("coder", project=make_project("elsewhere"))
    tasks = make_all_states(agent, now)
    own = make_task(TaskState.QUEUED, "Task of tester", agent=tester, now=now)
    other = make_task(TaskState.QUEUED, "Task elsewhere", agent=far, now=now)
    everything = Task.objects.filter(title__startswith="Task ")

    done = run(start("task.reassign", everything, options={"agent": "tester"}, now=now), now=now)

    moved = {"queued", "retry", "blocked", "escalated"}
    taken = set(done.items.values_list("subject_id", flat=True))
    assert taken == {tasks[state].pk for state in moved}
    assert (done.matching, done.changed, done.refused) == (11, 4, 0)
    for state, before in tasks.items():
        task = Task.objects.get(pk=before.pk)
        assert task.agent == (tester if state in moved else agent), state
        assert (task.state, task.attempts) == (before.state, before.attempts)
    event = Event.objects.about(tasks["queued"].pk).order_by("id").last()
    assert event and (event.kind, event.actor_name) == ("task.changed", "mara")
    assert event.data == {"changed": ["agent"], "from_agent": "coder", "to_agent": "tester"}
    assert {Task.objects.get(pk=row.pk).version for row in (own, other)} == {1}


def test_a_reassigned_task_is_claimed_by_its_new_agent_alone(agent: Agent, now: datetime) -> None:
    tester = make_agent("tester")
    task = make_task(TaskState.RETRY, agent=agent, now=now)
    rows = Task.objects.filter(pk=task.pk)
    run(start("task.reassign", rows, options={"agent": "tester"}, now=now), now=now)
    later = now + timedelta(hours=1)
    assert claims.claim(TrustedCaller(SYSTEM, agent=agent), now=later).rows == []
    [row] = claims.claim(TrustedCaller(SYSTEM, agent=tester), now=later).rows
    assert (row["id"], row["attempts"]) == (task.pk, 2)


def test_a_reassigned_task_takes_its_open_question_to_its_new_agent(
    agent: Agent, now: datetime
) -> None:
    """So that its previous agent can't see or withdraw it."""
    tester = make_agent("tester")
    task = make_task(TaskState.ESCALATED, agent=agent, now=now)
    before = Escalation.objects.get(task=task)
    rows = Task.objects.filter(pk=task.pk)
    run(start("task.reassign", rows, options={"agent": "tester"}, now=now), now=now)
    after = Escalation.objects.get(task=task)
    assert (after.agent, after.version) == (tester, before.version + 1)
    assert after.state == "open"


def test_reassign_leaves_a_task_that_started_or_lost_its_agent(agent: Agent, now: datetime) -> None:
    tester = make_agent("tester")
    ids = [enqueued(agent, now=now) for _ in range(3)]
    rows = Task.objects.filter(pk__in=ids)
    operation = start("task.reassign", rows, options={"agent": "tester"}, now=now)
    claimed(agent, ids[0], now=now)
    change(ids[1], Change(agent=tester), version=1, stamp=Stamp(SYSTEM, now))
    run(operation, now=now)
    assert list_refusals(operation) == [
        (ids[0], "Invalid state transition"),
        (ids[1], "It is this agent’s already"),
    ]
    assert Task.objects.get(pk=ids[2]).agent == tester
    operation = start("task.reassign", rows, options={"agent": "coder"}, now=now)
    Agent.objects.filter(pk=agent.pk).update(name="renamed")
    run(operation, now=now)
    assert {why for _, why in list_refusals(operation)} == {"Its project has no agent of this name"}


def test_unblock_frees_tasks_that_a_skip_blocked(agent: Agent, now: datetime) -> None:
    blocked = make_task(TaskState.BLOCKED, agent=agent, now=now)
    need_id = blocked.needs.get().need_id
    task_actions.skip([need_id], dependents="block", stamp=Stamp(SYSTEM, now))
    done = run(start("task.unblock", Task.objects.filter(pk=blocked.pk), now=now), now=now)
    blocked.refresh_from_db()
    assert (done.changed, blocked.state) == (1, "queued")


def test_dead_letters_are_replayed_and_dismissed(agent: Agent, now: datetime) -> None:
    letters = [buried(f"Letter {n}", agent=agent, now=now).pk for n in range(4)]
    replayed = start("dead_letter.replay", DeadLetter.objects.filter(pk__in=letters[:3]), now=now)
    # one of them is closed by someone else before its turn comes
    deadletters.dismiss(letters[:1], among=DeadLetter.objects.all(), stamp=Stamp(SYSTEM, now))
    run(replayed, now=now)
    assert (replayed.changed, replayed.refused) == (2, 1)
    assert list_refusals(replayed) == [(letters[0], "Already dismissed")]
    rest = DeadLetter.objects.open()
    dismissed = run(start("dead_letter.dismiss", rest, reason="Old", now=now), now=now)
    assert dismissed.changed == 1
    assert DeadLetter.objects.get(pk=letters[3]).note == "Old"


def test_escalations_get_the_same_answer_and_each_is_recorded(agent: Agent, now: datetime) -> None:
    tasks = [make_task(TaskState.ESCALATED, agent=agent, now=now) for _ in range(3)]
    asked = list(Escalation.objects.filter(task__in=tasks).order_by("id"))
    choice = {"action": "fix", "fix": "Install lxml first"}
    operation = start("escalation.answer", Escalation.objects.all(), options=choice, now=now)
    task_actions.skip([tasks[1].pk], stamp=Stamp(SYSTEM, now))  # withdraws its question
    run(operation, now=now)
    assert (operation.changed, operation.refused) == (2, 1)
    assert [id for id, _ in list_refusals(operation)] == [asked[1].pk]
    answered = Escalation.objects.filter(action="fix", fix="Install lxml first").order_by("id")
    assert [row.pk for row in answered] == [asked[0].pk, asked[2].pk]
    assert all(list_kinds(row.pk)[-1] == "escalation.resolved" for row in answered)


def test_instructions_are_sent_again_and_cancelled(agent: Agent, now: datetime) -> None:
    failed = make_instruction("failed", agent=agent)
    delivered = make_instruction("delivered", agent=agent)
    queued = make_instruction("queued", agent=agent)
    sent = run(start("instruction.send_again", Instruction.objects.all(), now=now), now=now)
    assert (sent.matching, sent.total, sent.changed) == (3, 2, 2)
    assert Instruction.objects.get(resend_of=failed).state == "queued"
    assert Instruction.objects.get(pk=delivered.pk).state == "queued"
    waiting = Instruction.objects.exclude(pk=failed.pk)
    gone = run(start("instruction.cancel", waiting, now=now), now=now)
    assert gone.changed == 3
    assert Instruction.objects.get(pk=queued.pk).state == "cancelled"


def test_a_wrong_verb_or_option_is_refused_before_anything_is_stored(
    agent: Agent, now: datetime
) -> None:
    make_task(TaskState.QUEUED, agent=agent, now=now)
    rows = Task.objects.all()
    with pytest.raises(NotFound, match="there are: task"):
        start("task.explode", rows, now=now)
    with pytest.raises(Invalid, match="whole number"):
        start("task.prioritize", rows, options={"priority": "high"}, now=now)
    with pytest.raises(Invalid, match="continue"):
        start("task.skip", rows, options={"dependents": "eat"}, now=now)
    with pytest.raises(Invalid, match="needs text"):
        start("escalation.answer", Escalation.objects.all(), options={"action": "fix"}, now=now)
    with pytest.raises(Invalid, match="needs text"):
        start("task.fix", rows, options={"fix": " \n"}, now=now)
    with pytest.raises(Invalid, match="must not be blank"):
        start("task.reassign", rows, now=now)
    with pytest.raises(Invalid, match="No agent is called “nobody”"):
        start("task.reassign", rows, options={"agent": "nobody"}, now=now)
    assert not Operation.objects.exists()
    with pytest.raises(NothingToChange):
        start("task.fix", rows, options={"fix": "Look again"}, now=now)
    with pytest.raises(NothingToChange):
        start("task.reassign", rows, options={"agent": agent.name}, now=now)
    with pytest.raises(NothingToChange):
        start("task.retry_now", rows, now=now)
    assert set(VERBS) == {find_verb(name).name for name in VERBS}
