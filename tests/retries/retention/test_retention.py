"""What is too old is archived and deleted whole, and nothing that something else needs."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from config.local.places import PROJECT
from ledger.access import audit
from ledger.database import sql
from ledger.journal import SYSTEM, Stamp
from ledger.models import (
    Agent,
    Budget,
    ClockRun,
    DeadLetter,
    Failure,
    Instruction,
    Message,
    Plan,
    Session,
    Task,
)
from retries import deadletters, in_process, sweeps
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.failures import failure_counts, figures
from retries.failures.fixes import reading as fixes
from retries.insight.targets import Subject, set_target
from retries.models import Escalation, FailurePattern, Grouped, TaskTarget
from retries.plans import aborting as plans
from retries.retention import archives, pace, running
from retries.sessions import processing
from retries.states import Answer
from tests.factories import MINUTE, make_instruction, send
from tests.ledger.plans.test_import_writer import do, imported, task
from tests.retries.budgets.spending import set_budget
from tests.retries.failures.test_suggestions import MISSING, fixed
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.sessions.worlds import make_session, store
from tests.serving import database_of_tests
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)
# Ids begin with the time of the database, so old rows are of today and retention runs later.
OLD = timezone.now()
YOUNG = OLD + timedelta(days=20)
LATER = OLD + timedelta(days=40)
KINDS = ("TASK_DAYS", "INSTRUCTION_DAYS", "ESCALATION_DAYS", "SESSION_DAYS")


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    """Delete what is older than 30 days; return the folder of the archives."""
    place = tmp_path / "archive"
    settings.TENFOUR = settings.TENFOUR | dict.fromkeys(KINDS, 30) | {"ARCHIVE": str(place)}
    return place


def finish(agent: Agent, *, now: Any = OLD, **more: Any) -> UUID:
    id = make_task(agent, now=now, **more)
    in_process.report_success(attempt_of(claim(agent, task=id, now=now)), stamp=Stamp(SYSTEM, now))
    return id


def fail_for_good(agent: Agent, *, now: Any = OLD) -> UUID:
    id = make_task(agent, now=now, max_attempts=1, on_exhausted="dead_letter")
    fail(agent, attempt_of(claim(agent, task=id, now=now)), now=now, message=MISSING)
    return id


def letter_of(task_id: UUID) -> UUID:
    return DeadLetter.objects.get(task=task_id).pk


def replay(task_id: UUID, *, now: Any) -> UUID:
    every, stamp = DeadLetter.objects.all(), Stamp(SYSTEM, now)
    id: UUID = deadletters.replay([letter_of(task_id)], among=every, stamp=stamp)[0].replayed_as_id
    return id


def shown(ref: object, capsys: pytest.CaptureFixture[str]) -> list[str]:
    call_command("archive", "show", str(ref))
    return capsys.readouterr().out.splitlines()


def test_what_is_over_goes_whole_and_what_is_needed_stays(
    agent: Agent, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # tasks that go: alone, with a need, failed and dismissed, and a replay with its origin
    gone = [finish(agent), fail_for_good(agent), fail_for_good(agent)]
    deadletters.dismiss(
        [letter_of(gone[1])], among=DeadLetter.objects.all(), stamp=Stamp(SYSTEM, OLD)
    )
    again = replay(gone[2], now=OLD)
    in_process.report_success(
        attempt_of(claim(agent, task=again, now=OLD)), stamp=Stamp(SYSTEM, OLD)
    )
    gone += [again, finish(agent, needs=[gone[0]])]
    asked = fixed(agent, "Install it", works=True, now=OLD)
    gone.append(asked)
    # tasks that stay: young, needed, with an open dead letter, linked to a young one, spoken of
    needed = finish(agent)
    kept = [
        finish(agent, now=YOUNG),
        needed,
        make_task(agent, needs=[needed]),
        fail_for_good(agent),
    ]
    origin = fail_for_good(agent)
    young = replay(origin, now=YOUNG)
    in_process.report_success(
        attempt_of(claim(agent, task=young, now=YOUNG)), stamp=Stamp(SYSTEM, YOUNG)
    )
    spoken_of = finish(agent)
    send(agent, "Look at it", task=spoken_of, now=OLD)
    kept += [origin, young, spoken_of]
    # a finished plan goes, and one that is not stays with its done task
    imported({"title": "One"}, {"title": "Two", "needs": [1]}, now=OLD)
    for ref in ("03-01:task-1", "03-01:task-2"):
        do(agent, ref, now=OLD)
    Plan.objects.filter(ref="03-01").update(completed_at=OLD)
    planned = [task("03-01:task-1").pk, task("03-01:task-2").pk]
    imported({"title": "One"}, {"title": "Two"}, now=OLD, ref="03-02")
    do(agent, "03-02:task-1", now=OLD)
    kept += [task("03-02:task-1").pk, task("03-02:task-2").pk]
    # instructions, and escalations of both
    settled = [make_instruction(state, agent=agent) for state in ("acknowledged", "cancelled")]
    about = make_instruction("acknowledged", agent=agent)
    Instruction.objects.filter(pk=about.pk).update(task=gone[0], updated_at=YOUNG)
    open_one = make_instruction("failed", agent=agent, on_failed="escalate")
    # sessions: one that is over, with a message of a task, and one with messages that wait
    over, waiting = make_session(agent), make_session(agent)
    store(over, 3)
    processing.process_session(over.pk)
    store(waiting)
    assert list(audit.audit()) == []
    tasks, before = Task.objects.count(), Message.objects.filter(session=over).count()

    did = running.delete_old(now=LATER)
    assert did == {
        "sessions": 1,
        "plans": 1,
        "tasks": len(gone),
        "payloads": 0,
        "permissions": 0,
        "instructions": len(settled),
        "escalations": 0,
        "traces": 0,
    }
    assert set(Task.objects.values_list("pk", flat=True)) == set(kept)
    assert tasks == len(kept) + len(gone) + len(planned)
    assert not Escalation.objects.filter(task=asked).exists()
    assert list(Plan.objects.values_list("ref", flat=True)) == ["03-02"]
    about.refresh_from_db()
    assert about.task is None and Escalation.objects.filter(instruction=open_one).exists()
    assert not Instruction.objects.filter(pk__in=[each.pk for each in settled]).exists()
    assert list(Session.objects.values_list("pk", flat=True)) == [waiting.pk]
    assert list(audit.audit()) == []

    # every deleted row can be read again, by any of its names
    (line,) = shown(asked, capsys)
    assert "Install it" in line and '"kind": "task"' in line
    assert len(shown("03-01:task-2", capsys)) == 1 and len(shown("03-01", capsys)) == 1
    assert len(shown(settled[0].pk, capsys)) == 1
    assert len(shown(over.pk, capsys)) == 1 + before == 4
    with pytest.raises(CommandError, match="has the id or ref"):
        shown(needed, capsys)
    call_command("archive", "verify")
    call_command("archive", "list")
    text = capsys.readouterr().out
    assert "All records of 1 files can be read" in text
    assert f"{agent.project_id}/{LATER:%Y-%m-%d}.jsonl.gz: " in text
    assert folder.stat().st_mode & 0o777 == 0o750
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o640}

    # a second run finds nothing, and writes nothing
    sizes = {path: path.stat().st_size for path in files}
    assert not any(running.delete_old(now=LATER).values())
    assert {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()} == sizes


def test_budgets_go_with_their_tasks_and_plans(
    agent: Agent, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, young = finish(agent), finish(agent, now=YOUNG)
    plan = imported({"title": "One"}, now=OLD).plan
    do(agent, "03-01:task-1", now=OLD)
    Plan.objects.update(completed_at=OLD)
    planned = task("03-01:task-1").pk
    gone = [set_budget(agent, task=id, now=OLD) for id in (alone, planned)]
    gone.append(set_budget(agent, plan=plan.pk, now=OLD))
    kept = [set_budget(agent, task=young, now=YOUNG), set_budget(agent, now=OLD)]
    running.delete_old(now=LATER)
    assert set(Budget.objects.all()) == set(kept)
    assert set(Task.objects.values_list("pk", flat=True)) == {young}
    assert not Plan.objects.exists()
    for ref, budget in zip((alone, planned, "03-01"), gone, strict=True):
        assert any(str(budget.pk) in line for line in shown(ref, capsys))


def test_the_targets_of_a_plan_go_with_it(agent: Agent, folder: Path) -> None:
    plan = imported({"title": "One"}, now=OLD).plan
    do(agent, "03-01:task-1", now=OLD)
    Plan.objects.update(completed_at=OLD)
    kept = Subject.of_type(agent.project_id, "code")
    for subject in (kept, Subject.of_plan(plan)):
        set_target(subject, percent=90, within_s=60, measure="wait", stamp=Stamp(SYSTEM, OLD))
    running.delete_old(now=LATER)
    assert not Plan.objects.exists()
    assert [each.type for each in TaskTarget.objects.all()] == ["code"]


def test_an_escalation_goes_before_its_task_but_not_an_answer_in_words(
    agent: Agent, settings: Any, folder: Path
) -> None:
    settings.TENFOUR = settings.TENFOUR | {"TASK_DAYS": 0}
    told = fixed(agent, "Install it", works=True, now=OLD)
    skipped = make_task(agent, now=OLD, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent, now=OLD)), now=OLD)
    answering.answer(
        Escalation.objects.get(task=skipped).pk,
        Choice(Answer.SKIP),
        among=Escalation.objects.all(),
        stamp=Stamp(SYSTEM, OLD),
        channel="api",
    )
    assert running.delete_old(now=LATER)["escalations"] == 1
    assert Escalation.objects.get().task_id == told and Task.objects.count() == 2


def test_payloads_go_before_their_rows(
    agent: Agent, settings: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.TENFOUR = settings.TENFOUR | {"TASK_DAYS": 0, "PAYLOAD_DAYS": 30}
    old, young = (finish(agent, payload={"action": "Go"}, now=at) for at in (OLD, YOUNG))
    asked = fixed(agent, "Install it", works=True, now=OLD)
    failed = fail_for_good(agent)
    imported({"title": "One"}, {"title": "Two"}, now=OLD)
    do(agent, "03-01:task-1", now=OLD)
    plans.abort([Plan.objects.get().pk], stamp=Stamp(SYSTEM, OLD))
    assert running.delete_old(now=LATER)["payloads"] == 3
    cleared = {row.pk for row in Task.objects.all() if "tenfour_deleted_at" in row.payload}
    assert cleared == {old, asked, task("03-01:task-1").pk} and {young, failed}.isdisjoint(cleared)
    assert Failure.objects.get(task=asked).message == MISSING
    (line,) = shown(old, capsys)
    assert json.loads(line)["task"]["payload"] == {"action": "Go"}
    assert not any(running.delete_old(now=LATER).values()) and list(audit.audit()) == []


def test_the_counts_of_deleted_failures_and_fixes_stay(agent: Agent, folder: Path) -> None:
    for n in range(4):
        fixed(agent, "Install it", works=n != 0, now=OLD + n * MINUTE * 10)
    # a plain retry of the same error, which worked
    id = make_task(agent, now=OLD, max_attempts=2)
    fail(agent, attempt_of(claim(agent, task=id, now=OLD)), now=OLD, message=MISSING)
    late = OLD + timedelta(hours=3)
    in_process.report_success(
        attempt_of(claim(agent, task=id, now=late)), stamp=Stamp(SYSTEM, late)
    )
    patterns = list(FailurePattern.objects.values_list("pk", flat=True))

    def count() -> list[object]:
        found = [each for pk in patterns for each in fixes.list_learned_fixes(pk)]
        learned = [(each.fix, str(each), str(each.plain), each.state) for each in found]
        return [
            figures.count_failures(patterns),
            figures.list_agent_names(patterns),
            [figures.count_by_agent(pk, most=9) for pk in patterns],
            learned,
        ]

    before = count()
    assert "worked 3 of 4" in str(before) and "1 of 1" in str(before)
    assert running.delete_old(now=LATER)["tasks"] == 5 - 1  # one failed for good again
    assert Grouped.objects.count() == 2 and count() == before
    failure_counts.add_up_counts()
    assert count() == before
    # later failures are added
    fixed(agent, "Install it", works=True, now=LATER)
    assert "worked 4 of 5" in str(count())


def test_what_changed_meanwhile_stays(agent: Agent, folder: Path) -> None:
    """A row that is locked, or that something new needs, is archived and not deleted."""
    ids = [finish(agent), finish(agent), finish(agent)]
    kind = running.KINDS[2]
    assert kind.name == "tasks"
    found = kind.find(UUID(int=0), running.Scope(LATER))
    assert found and set(found.ids) == set(ids)
    make_task(agent, needs=[ids[0]])
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        Task.objects.select_for_update().get(pk=ids[1])
        assert (
            pool.submit(in_thread, lambda: kind.delete(ids, running.Scope(LATER))).result(
                PATIENCE_S
            )
            == 1
        )
    assert set(Task.objects.values_list("pk", flat=True)) >= set(ids[:2])
    assert not Task.objects.filter(pk=ids[2]).exists() and list(audit.audit()) == []


def in_thread(call: Any) -> Any:
    try:
        return call()
    finally:
        connection.close()


def test_two_runs_at_once_do_no_harm(agent: Agent, folder: Path, settings: Any) -> None:
    ids = [finish(agent) for _ in range(30)]
    with archives.open_writer(folder, OLD.date(), archives.ROWS):
        assert running.delete_old(now=LATER)["busy"] == 1
    assert Task.objects.count() == 30
    settings.TENFOUR = settings.TENFOUR | {"ARCHIVE": "off"}
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(in_thread, lambda: running.delete_old(now=LATER)) for _ in range(2)]
        assert sum(run.result(PATIENCE_S)["tasks"] for run in runs) == len(ids)
    assert not Task.objects.exists() and list(audit.audit()) == []


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run last for twelve looks at the clock, and each search find one row."""
    looks = count()
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    monkeypatch.setattr(running, "SLICE_SECONDS", 12)
    kinds = [replace(kind, searched=1) for kind in running.KINDS]
    monkeypatch.setattr(running, "KINDS", kinds)


def test_a_run_rests_after_each_batch(
    agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, rests = count(), list[float]()
    clock = SimpleNamespace(monotonic=lambda: next(looks), sleep=rests.append)
    monkeypatch.setattr(pace, "time", clock)
    monkeypatch.setattr(running, "KINDS", [replace(each, searched=1) for each in running.KINDS])
    for _ in range(3):
        finish(agent)
    assert running.delete_old(now=LATER)["tasks"] == 3
    # a second between two looks at the clock
    assert set(rests) == {running.REST_SHARE}
    assert len(rests) >= 3


@pytest.mark.usefixtures("short_runs")
def test_a_kind_with_many_rows_does_not_keep_other_kinds_waiting(
    agent: Agent, folder: Path
) -> None:
    for _ in range(12):
        finish(agent)
    make_instruction("acknowledged", agent=agent)
    did = sweeps.run("retention", now=LATER)
    assert did["instructions"] == 1 and 1 <= did["tasks"] < 12, did
    assert list(did["resume_after"]) == ["tasks"]


@pytest.mark.usefixtures("short_runs")
def test_rows_that_must_stay_do_not_keep_later_rows_waiting(agent: Agent, folder: Path) -> None:
    """Each run continues where the last one stopped, and begins again after the end."""
    kept = [finish(agent) for _ in range(12)]
    needs_them = make_task(agent, needs=kept, now=OLD)
    last = finish(agent)
    runs = 0
    while Task.objects.filter(pk=last).exists():
        assert (runs := runs + 1) <= len(kept), "it never comes to the last row"
        sweeps.run("retention", now=LATER)
    assert runs > 1 and Task.objects.count() == len(kept) + 1
    # a run of one project says nothing about where the clock stopped
    stopped = ClockRun.objects.get(name="retention").did
    sweeps.run("retention", now=LATER, project=agent.project)
    assert ClockRun.objects.get(name="retention").did == stopped
    attempt = attempt_of(claim(agent, task=needs_them, now=OLD))
    in_process.report_success(attempt, stamp=Stamp(SYSTEM, OLD))
    for _ in range(2 * len(kept)):
        sweeps.run("retention", now=LATER)
    assert not Task.objects.exists() and list(audit.audit()) == []


def test_an_archive_that_cannot_be_written_keeps_the_rows(
    agent: Agent, tmp_path: Path, settings: Any, folder: Path
) -> None:
    finish(agent)
    (tmp_path / "file").write_text("")
    settings.TENFOUR = settings.TENFOUR | {"ARCHIVE": str(tmp_path / "file" / "archive")}
    assert "The archive can't be written" in running.delete_old(now=LATER)["error"]
    assert Task.objects.count() == 1


MANY = """insert into ledger_task (id, project_id, agent_id, title, type, state, payload,
    max_attempts, attempt_limit, on_exhausted, base_delay_ms, max_delay_ms, exponential_base,
    jitter, lease_s, timeout_s, idempotent, created_by_type, created_by_name, created_at,
    updated_at, completed_at)
select uuidv7(interval '-50 days'), a.project_id, a.id, 'task ' || n, 'code', 'skipped', '{}', 3,
    3, 'dead_letter', 1, 1, 2, true, 300, 60, true, 'system', 'test', at, at, at
from ledger_agent a, generate_series(1, 1500) n, (select now() - interval '49 days' as at) ago"""


HELD = """select count(*) as n from pg_locks
    where locktype = 'transactionid' and pid <> pg_backend_pid()"""


def test_a_run_that_is_killed_loses_nothing(agent: Agent, folder: Path) -> None:
    with connection.cursor() as cursor:
        cursor.execute(MANY)
    ids = {str(id) for id in Task.objects.values_list("pk", flat=True)}
    env = os.environ | {
        "DATABASE_URL": database_of_tests(),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "TENFOUR_TASK_DAYS": "30",
        "TENFOUR_ARCHIVE": str(folder),
    }
    tick = "import django; django.setup(); from retries.sweeps import run; run('retention')"
    killed = subprocess.Popen([sys.executable, "-c", tick], cwd=PROJECT, env=env)
    wait_until(lambda: any(each.stat().st_size for each in folder.glob("*/*.gz")))
    killed.send_signal(signal.SIGKILL)
    killed.wait(PATIENCE_S)
    # PostgreSQL ends the statement of the dead process before it takes its locks away.
    wait_until(lambda: not sql.run(HELD)[0]["n"])
    # The disk may have had a part of what was written last.
    (path,) = archives.list_files(folder)
    with path.open("ab") as torn:
        torn.write(archives.BATCH_START + b"a part")
    running.delete_old(now=timezone.now())
    assert not Task.objects.exists()
    problems: list[str] = []
    records = [record for _, record in archives.read_records(path, problems.append)]
    assert {record["task"]["id"] for record in records} == ids and len(problems) == 1
