"""Tasks of a plan whose files overlap do not run at once."""

import random
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from ledger.database import server_time
from ledger.errors import InvalidTransition
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Task
from ledger.models.budget import FOREVER
from ledger.plans import editing as plan_editing
from ledger.tasks import Change, type_pauses
from ledger.tasks.exclusive_files import find_holder
from ledger.tokens import TrustedCaller
from retries.attempts import finishing, releases
from retries.attempts.report_fields import Report
from retries.claims import ClaimResult
from retries.tasks import actions as task_actions
from tests.elsewhere import at_once, blocked
from tests.factories import MINUTE, NOW, make_agent
from tests.ledger.plans.test_import_writer import imported, task
from tests.retries.moves import attempt_of, claim, fail
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db


def of(*files: str, **more: Any) -> dict[str, Any]:
    return {"files": list(files)} | more


def exclusive(*tasks: dict[str, Any], **more: Any) -> Any:
    return imported(*tasks, exclusive_files=True, **more)


def refs(found: ClaimResult) -> list[str]:
    return [row["ref"].rpartition("-")[2] for row in found.rows]


def finish(agent: Agent, attempt: UUID) -> None:
    finishing.finish_attempt(attempt, Report(), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)


def overlap(a: list[str], b: list[str]) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "select ledger_files_overlap(to_jsonb(%s::text[]), to_jsonb(%s::text[]))", [a, b]
        )
        return bool(cursor.fetchone()[0])


# ---- which files overlap


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("src/a.py", "src/a.py"),
        ("src/a.py", "./src/a.py"),
        ("src/a.py", "././src//a.py "),
        ("src/a.py", "src"),
        ("src/a.py", "src/"),
        ("src/a.py", "src/**"),
        ("src/a.py", "src/*.py"),
        ("src/a.py", "src/[ab].py"),
        ("src/a.py", "src/{a,b}.py"),
        ("src/sub/a.py", "src/*.py"),  # a glob stands for its folder
        ("src/a.py", "**/*.py"),
        ("src/a.py", "."),
        ("src/a.py", "./"),
        ("src\\a.py", "src/a.py"),
        ("src/a.py", "src/./a.py"),
        ("src/a.py", "lib/../src/a.py"),
        ("src\\..\\lib", "lib"),
        ("/repo/src", "/repo/src/a.py"),
    ],
)
def test_files_overlap(a: str, b: str) -> None:
    assert overlap([a], [b]) and overlap([b, "x"], ["y", a])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("src/a.py", "src/b.py"),
        ("src/a.py", "src/a.pyi"),
        ("src", "src2/a.py"),
        ("src/*.py", "lib/*.py"),
        ("src/a.py", "SRC/a.py"),
        (" ", "src/a.py"),
        (".env", "env"),
        (".github/a", "github/a"),
    ],
)
def test_files_do_not_overlap(a: str, b: str) -> None:
    assert not overlap([a], [b]) and not overlap([b], [a])


# ---- one claim after the other


def test_a_claim_passes_over_a_task_whose_files_are_in_use(agent: Agent) -> None:
    exclusive(of("src/a.py", "src/b.py"), of("src/b.py"), of("lib/"))
    first = claim(agent)
    assert refs(first) == ["1"]
    assert refs(claim(agent)) == ["3"]
    empty = claim(agent)
    assert (empty.rows, empty.reason) == ([], "no_task")
    finish(agent, attempt_of(first))
    assert refs(claim(agent)) == ["2"]


def test_a_plan_without_it_runs_them_at_once(agent: Agent) -> None:
    imported(of("a"), of("a"))
    assert [refs(claim(agent)), refs(claim(agent))] == [["1"], ["2"]]


def test_tasks_without_files_and_other_plans_do_not_wait(agent: Agent) -> None:
    exclusive(of("a"), {})
    exclusive(of("a"), ref="03-02")
    assert len([claim(agent).rows[0] for _ in range(3)]) == 3


@pytest.mark.parametrize("end", ["failure", "release", "retry"])
def test_files_are_free_however_the_attempt_ends(agent: Agent, end: str) -> None:
    exclusive(of("a", max_attempts=1 if end == "failure" else 5), of("a"))
    attempt = attempt_of(claim(agent))
    if end == "release":
        releases.release(
            attempt, caller=TrustedCaller(SYSTEM, agent=agent), reason="shutdown", now=NOW
        )
    else:
        fail(agent, attempt, now=NOW)
    assert len(claim(agent).rows) == 1
    assert claim(agent).rows == []


def test_a_claim_of_several_takes_none_that_overlap(agent: Agent) -> None:
    exclusive(of("a"), of("b"), of("b", "c"), of("c"), of("a"), of("d"), {})
    # 4 overlaps only with 3, which waits and comes first.
    assert refs(claim(agent, limit=50)) == ["1", "2", "6", "7"]
    assert claim(agent, limit=50, worker_id="w").rows == []


def test_a_due_retry_waits_for_the_files(agent: Agent) -> None:
    exclusive(of("a"), of("a"))
    fail(agent, attempt_of(claim(agent)), now=NOW)
    retry = Task.objects.filter(state="retry")
    retry.update(due_at=server_time.now() + MINUTE)  # which PostgreSQL compares with its clock
    second = claim(agent, task=task("03-01:task-2").pk)
    retry.update(due_at=NOW)
    assert claim(agent).rows == [] and claim(agent, limit=9).rows == []
    finish(agent, attempt_of(second))
    assert refs(claim(agent)) == ["1"]


def test_a_start_names_the_task_that_has_the_files(agent: Agent) -> None:
    exclusive(of("a"), of("a"))
    claim(agent)
    with pytest.raises(InvalidTransition, match="waits for 03-01:task-1, which has some"):
        claim(agent, task=task("03-01:task-2").pk)


def test_later_tasks_do_not_overtake_the_first_one(agent: Agent) -> None:
    """A wide task gets its turn, although narrow ones always wait beside it."""
    exclusive(of("a"), of("b"), of("./"), *[of("a"), of("b")] * 5)
    live = [attempt_of(claim(agent)) for _ in range(2)]
    assert claim(agent).rows == []
    finish(agent, live[0])
    assert claim(agent).rows == []
    finish(agent, live[1])
    assert refs(claim(agent)) == ["3"]
    assert claim(agent).rows == []


@pytest.mark.parametrize("state", ["queued", "retry"])
def test_a_task_that_waits_for_its_budget_keeps_no_files(agent: Agent, state: str) -> None:
    exclusive(of("a"), of("a"))
    first = Task.objects.filter(pk=task("03-01:task-1").pk)
    if state == "retry":
        fail(agent, attempt_of(claim(agent)), now=NOW)
        first.update(due_at=server_time.now() - MINUTE)
    first.update(spent_until=FOREVER)
    assert refs(claim(agent)) == ["2"]


@pytest.mark.parametrize("state", ["queued", "retry"])
def test_a_task_of_a_paused_type_keeps_no_files(agent: Agent, state: str) -> None:
    exclusive(of("a"), of("a"))
    first = Task.objects.filter(pk=task("03-01:task-1").pk)
    if state == "retry":
        fail(agent, attempt_of(claim(agent)), now=NOW)
        first.update(due_at=server_time.now() - MINUTE)
    first.update(type="migrate")
    type_pauses.set_paused(
        "migrate", paused=True, project_id=agent.project_id, stamp=Stamp(SYSTEM, NOW)
    )
    assert refs(claim(agent)) == ["2"]


def test_agents_share_the_files_of_a_plan(agent: Agent) -> None:
    other = make_agent("reviewer")
    exclusive(of("a"), of("a", agent="reviewer"), of("b", agent="reviewer"))
    first = claim(agent)
    assert refs(claim(other)) == ["3"]
    finish(agent, attempt_of(first))
    assert refs(claim(other)) == ["2"]


def test_an_agent_whose_tasks_wait_for_files_asks_soon(agent: Agent) -> None:
    exclusive(of("a"), of("a"))
    claim(agent)
    Agent.objects.update(last_worked_at=NOW)
    assert claim(agent).retry_after_s == 2


# ---- what changes it


def test_a_person_turns_it_on_and_off(agent: Agent) -> None:
    plan = imported(of("a"), of("a"), of("a")).plan
    claim(agent)
    plan = plan_editing.change(
        plan.pk, exclusive_files=True, version=plan.version, stamp=Stamp(SYSTEM, NOW)
    )
    assert claim(agent).rows == []
    plan_editing.change(
        plan.pk, exclusive_files=False, version=plan.version, stamp=Stamp(SYSTEM, NOW)
    )
    assert refs(claim(agent)) == ["2"]


def test_a_merge_turns_it_on(agent: Agent) -> None:
    imported(of("a"), of("a"))
    claim(agent)
    imported(of("a"), of("a"), of("a"), mode="merge", exclusive_files=True)
    assert claim(agent).rows == []
    assert list(Task.objects.values_list("exclusive", flat=True)) == [True] * 3


def test_new_files_of_a_task_count_at_once(agent: Agent) -> None:
    exclusive(of("a"), of("a"))
    claim(agent)
    second = task("03-01:task-2")
    task_actions.change(
        second.pk,
        Change(payload={"files": ["b"]}),
        version=second.version,
        stamp=Stamp(SYSTEM, NOW),
    )
    assert refs(claim(agent)) == ["2"]


# ---- what says so


def test_a_waiting_task_says_which_task_it_waits_for(agent: Agent, operator: Any) -> None:
    exclusive(of("a"), of("a"), of("b"))
    first, second, third = (task(f"03-01:task-{n}").pk for n in (1, 2, 3))
    held = lambda id: operator("GET", f"/tasks/{id}").body["files_held_by"]  # noqa: E731
    # The first one in the queue keeps its place.
    assert [held(first), held(second), held(third)] == [None, str(first), None]
    claim(agent, task=first)
    assert [held(first), held(second), held(third)] == [None, str(first), None]
    listed = operator("GET", "/tasks").body["data"]
    assert [row["files_held_by"] for row in listed] == [None, str(first), None]
    assert find_holder(second)["ref"] == "03-01:task-1"


# ---- at once


@pytest.mark.django_db(transaction=True)
def test_a_claim_waits_for_another_one_that_is_not_committed(elsewhere: Any) -> None:
    agent = make_agent()
    exclusive(of("a"), of("a"), of("b"))
    with transaction.atomic():
        assert refs(claim(agent)) == ["1"]
        other = elsewhere(lambda: claim(agent))
        with blocked(other):
            pass
    assert refs(other.result(PATIENCE_S)) == ["3"]


@pytest.mark.django_db(transaction=True)
def test_eight_workers_never_run_two_that_overlap() -> None:
    agents = [make_agent(f"agent-{n}") for n in range(3)]
    at = random.Random(7)
    folders = [f"src/{n}" for n in range(6)]
    exclusive(
        *(
            of(
                *(f"{folder}/{at.randrange(2)}.py" for folder in at.sample(folders, 2)),
                *(["src/0/"] if at.random() < 0.1 else []),
                agent=f"agent-{at.randrange(3)}",
            )
            for _ in range(120)
        )
    )

    def work(n: int) -> tuple[int, int]:
        agent, done, overlaps, empty = agents[n % 3], 0, 0, 0
        while empty < 200:
            found = claim(agent)
            if found.rows:
                overlaps += count_overlaps(found.rows[0]["id"])
                finish(agent, attempt_of(found))
            done, empty = done + len(found.rows), 0 if found.rows else empty + 1
        return done, overlaps

    found = at_once(8, work)
    assert [sum(each) for each in zip(*found, strict=True)] == [120, 0], found


OVERLAPS = """select count(*) from ledger_task t join ledger_task u
    on u.plan_id = t.plan_id and u.state = 'running' and u.id <> t.id
        and ledger_files_overlap(t.payload -> 'files', u.payload -> 'files')
where t.id = %s and t.state = 'running'"""


def count_overlaps(running: UUID) -> int:
    with connection.cursor() as cursor:
        cursor.execute(OVERLAPS, [running])
        return int(cursor.fetchone()[0])


def test_later_tasks_do_not_take_the_files_of_a_due_retry(agent: Agent) -> None:
    exclusive(of("src"), of("src/a"), of("src/b"))
    fail(agent, attempt_of(claim(agent)), now=NOW)
    Task.objects.filter(attempts=1).update(due_at=NOW, priority=-1)
    assert refs(claim(agent)) == ["2"]  # a better task goes first
    Task.objects.filter(attempts=1, state="retry").update(priority=0)
    assert claim(agent).rows == []
    finish(agent, Task.objects.get(state="running").current_attempt)
    assert refs(claim(agent)) == ["1"]
