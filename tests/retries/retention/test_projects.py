"""`manage.py project`: a project is exported and deleted whole, and no other loses a row."""

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import DatabaseError, OperationalError, connection, transaction
from django.utils import timezone

from ledger.access import audit
from ledger.database import sql
from ledger.journal import SYSTEM, Stamp
from ledger.journal_storage import deletion as journal_deletion
from ledger.models import Agent, DeadLetter, Event, Project, Task
from ledger.values.ids import FIRST_ID
from retries import deadletters, in_process
from retries.insight.targets import Subject, set_target
from retries.journal_readers import counts as activity_counts
from retries.journal_readers import metric_totals
from retries.models import ActivityCount, MetricTotal, StreamCursor
from retries.retention import archives, running
from retries.retention.projects import deletion as project_deletion
from retries.retention.projects.tables import SECRETS, TABLES
from tests.elsewhere import blocked
from tests.factories import NOW, make_agent, make_instruction, make_project, make_token
from tests.journal_partitions import settle
from tests.retries.budgets.spending import set_budget
from tests.retries.failures.test_suggestions import MISSING, fixed
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.renderings.stories import make_plan
from tests.retries.sessions.worlds import make_session, store
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

# of the whole instance, of people, or a view
OF_NO_PROJECT = {
    "ledger_clockrun",
    "ledger_preference",
    "ledger_signin",
    "ledger_signinrecord",
    "retries_quiethours",
    "retries_streamcursor",
    "task_history",
}


def run(*argv: str) -> str:
    out = StringIO()
    call_command("project", *argv, stdout=out)
    return out.getvalue()


def test_every_table_has_its_place() -> None:
    """A new table is exported and deleted with its project, or belongs to none."""
    known = {
        model._meta.db_table
        for label in ("ledger", "retries")
        for model in apps.get_app_config(label).get_models()
    }
    assert known == TABLES.keys() | OF_NO_PROJECT
    columns = {
        (model._meta.db_table, field.column)
        for model in apps.get_models()
        for field in model._meta.concrete_fields
    }
    assert {(table, name) for table, names in SECRETS.items() for name in names} <= columns


def make_world(project: Project) -> Agent:
    """Rows of nearly every table, with tasks that refer to each other."""
    agent = make_agent("worker", project=project)
    make_token("agent", agent=agent)
    make_token("operator", project=project)
    fixed(agent, "Install it", works=True, now=NOW)
    old = make_task(agent, max_attempts=1, on_exhausted="dead_letter")
    fail(agent, attempt_of(claim(agent)), now=NOW, message=MISSING)
    letters = DeadLetter.objects.filter(task=old)
    deadletters.replay([letters.get().pk], among=DeadLetter.objects.all(), stamp=Stamp(SYSTEM, NOW))
    make_task(agent, needs=[old])
    for state in ("acknowledged", "queued", "failed"):
        make_instruction(state, agent=agent)
    store(make_session(agent), 3)
    set_budget(agent)
    set_budget(agent, task=old)
    of_plan = Subject.of_plan(make_plan(agent))
    for subject in (Subject.of_agent(agent), Subject.of_type(project.pk, "code"), of_plan):
        set_target(subject, percent=90, within_s=60, measure="run", stamp=Stamp(SYSTEM, NOW))
    return agent


def count_all(project_id: UUID) -> dict[str, int]:
    with connection.cursor() as cursor:
        found = {}
        for table, condition in TABLES.items():
            cursor.execute(
                f"select count(*) from {table} where {condition}", {"project": project_id}
            )
            found[table] = cursor.fetchone()[0]
    return found


def test_an_export_replaces_no_device(tmp_path: Path) -> None:
    make_project("mine")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CommandError, match="is not a regular file"):
        run("export", "mine", str(pipe))
    assert pipe.is_fifo()


def test_a_project_is_exported_and_deleted_whole(tmp_path: Path) -> None:
    mine, other = make_project("mine"), make_project("other")
    for each in (mine, other):
        make_world(each)
    counts, others = count_all(mine.pk), count_all(other.pk)
    assert counts["ledger_task"] == 4 and counts["ledger_event"] > 20
    assert counts["retries_tasktarget"] == 3

    # the export has every row of it, and no secret
    file = tmp_path / "mine.jsonl.gz"
    assert "rows of the project 'mine'" in run("export", "mine", str(file))
    head, *rows, last = [
        json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()
    ]
    assert head["project"] == "mine" and last == {"rows": len(rows)}
    exported = Counter(row["table"] for row in rows)
    derived = ("ledger_taskwords", "ledger_taskvalue", "ledger_instructionwords")
    assert {t: n for t, n in counts.items() if n and t not in derived} == dict(exported)
    assert not any(name in row["row"] for row in rows for name in SECRETS.get(row["table"], ()))
    assert file.stat().st_mode & 0o777 == 0o600 and list(tmp_path.iterdir()) == [file]

    # nothing goes without the name, while something runs, or of the default project
    with pytest.raises(CommandError, match="Nothing was deleted"):
        run("delete", "mine")
    with pytest.raises(CommandError, match="There is no project 'missing'"):
        run("delete", "missing")
    make_project("default")
    with pytest.raises(CommandError, match="always exists"):
        run("delete", "default", "--yes-delete", "default")
    agent = Agent.objects.get(project=mine)
    running = claim(agent)
    with pytest.raises(CommandError, match="has 1 running tasks"):
        run("delete", "mine", "--yes-delete", "mine")
    in_process.report_success(attempt_of(running), stamp=Stamp(SYSTEM, NOW))
    assert count_all(mine.pk) | {"ledger_event": 0, "ledger_attempt": 0} == counts | {
        "ledger_event": 0,
        "ledger_attempt": 0,
    }

    said = run("delete", "mine", "--yes-delete", "mine")
    assert "has 4 tasks, 3 instructions" in said and "Deleted the project 'mine'" in said
    assert not any(count_all(mine.pk).values())
    assert count_all(other.pk) == others and list(audit.audit()) == []
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Event.objects.filter(project_id=other.pk).delete()


def test_the_archives_of_a_project_are_deleted_with_it(tmp_path: Path, settings: Any) -> None:
    days = {"TASK_DAYS": 30, "INSTRUCTION_DAYS": 30}
    settings.TENFOUR = settings.TENFOUR | days | {"ARCHIVE": str(tmp_path / "archive")}
    mine, other = make_project("mine"), make_project("other")
    for each in (mine, other):
        make_world(each)
    running.delete_old(now=timezone.now() + timedelta(days=40))
    folders = {each.pk: tmp_path / "archive" / str(each.pk) for each in (mine, other)}
    assert all(any(folder.iterdir()) for folder in folders.values())
    with archives.open_writer(tmp_path / "archive", NOW.date(), archives.JOURNAL) as writer:
        writer.append([archives.Record('{"names": []}', mine.pk)])
    run("delete", "mine", "--yes-delete", "mine")
    assert not folders[mine.pk].exists() and any(folders[other.pk].iterdir())


def test_a_project_whose_archives_cannot_be_deleted_is_deleted_later(
    tmp_path: Path, settings: Any
) -> None:
    folder = tmp_path / "archive"
    settings.TENFOUR = settings.TENFOUR | {"ARCHIVE": str(folder)}
    mine = make_project("mine")
    own = folder / str(mine.pk)
    folder.mkdir()
    own.write_text("no folder")
    with pytest.raises(CommandError, match=r"archives can't be deleted.*run this again"):
        run("delete", "mine", "--yes-delete", "mine")
    own.unlink()
    assert "Deleted" in run("delete", "mine", "--yes-delete", "mine")
    assert not Project.objects.filter(pk=mine.pk).exists()


def count_from_the_start(project: Project) -> int:
    """Count all events as the clock does for the first time; return the project's totals."""
    settle()
    StreamCursor.objects.update(tx=0, event_id=UUID(int=0))
    metric_totals.count_events(now=NOW)
    activity_counts.count_activity(now=NOW)
    assert ActivityCount.objects.filter(project=project).exists()
    return MetricTotal.objects.filter(project=project).count()


def test_the_clock_counts_before_each_step_of_a_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project("mine")
    make_world(project)

    def after_counting(step: Callable[..., None]) -> Callable[..., None]:
        def run_step(*args: Any) -> None:
            assert count_from_the_start(project)
            step(*args)

        return run_step

    for name in ("delete_rest", "delete_events", "delete_last"):
        step = getattr(project_deletion, name)
        monkeypatch.setattr(project_deletion, name, after_counting(step))
    project_deletion.delete_project(project, stamp=Stamp(SYSTEM, NOW))
    assert not any(count_all(project.pk).values())


def test_a_deletion_waits_for_a_count_that_is_under_way(elsewhere: Any) -> None:
    metric_totals.count_events(now=NOW)  # from now on, the readers have positions
    activity_counts.count_activity(now=NOW)
    project = make_project("mine")
    make_world(project)
    with ExitStack() as stack:
        with transaction.atomic():
            assert count_from_the_start(project)
            deleted = elsewhere(
                lambda: project_deletion.delete_project(project, stamp=Stamp(SYSTEM, NOW))
            )
            stack.enter_context(blocked(deleted))
            left = Event.objects.filter(project_id=project.pk)
            assert set(left.values_list("kind", flat=True)) == {"project.deletion_started"}
        deleted.result(PATIENCE_S)
    assert not any(count_all(project.pk).values())


def audited() -> str:
    out = StringIO()
    call_command("audit_ledger", stdout=out)
    return out.getvalue()


def interrupt_deletion(elsewhere: Any, locked: str, id: UUID) -> None:
    """Delete the project `mine` until it waits for a row, and end its connection there."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"select from {locked} where id = %s for update", [id])
        deleted = elsewhere(lambda: run("delete", "mine", "--yes-delete", "mine"))
        with blocked(deleted):
            cursor.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where wait_event_type = 'Lock' and datname = current_database()"
            )
        with pytest.raises(OperationalError):
            deleted.result(PATIENCE_S)


def test_the_audit_leaves_out_a_project_until_it_is_deleted(
    elsewhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_deletion, "BATCH", 1)
    monkeypatch.setattr(journal_deletion, "EVENTS_SEARCHED", 1)
    mine, other = make_project("mine"), make_project("other")
    for each in (mine, other):
        make_world(each)
    sound = "The ledger is consistent.\n"
    unfinished = (
        "The deletion of the project 'mine' has not finished; its rows were not checked. If it was "
        "interrupted, continue it: manage.py project delete mine --yes-delete mine\n"
    )
    assert audited() == sound

    # a task that waited for another, which is gone
    tasks = Task.objects.filter(project=mine).order_by("id")
    interrupt_deletion(elsewhere, "ledger_task", tasks.latest("id").pk)
    assert tasks.get().unmet == 1 and sql.run(audit.CHECKS["needs"][1])
    assert audited() == unfinished + sound

    # histories without their beginnings
    moves = Event.objects.filter(project_id=mine.pk, subject_type="task", from_state__isnull=False)
    interrupt_deletion(elsewhere, "ledger_event", moves.latest("id").pk)
    assert not tasks.exists() and moves.count() == 1
    legal = audit.legal_moves(audit.TASK_MOVES)
    assert sql.run(audit.PATHS, subject="task", legal=legal, kept=FIRST_ID)
    assert audited() == unfinished + sound

    # what is wrong with another project is still found
    broken = Task.objects.filter(project=other).latest("id")
    Task.objects.filter(pk=broken.pk).update(unmet=2)
    found = [str(each) for each in audit.audit()]
    assert found == [f"needs {broken.pk}: unmet is 2, 1 needs are not met"]
    Task.objects.filter(pk=broken.pk).update(unmet=1)

    run("delete", "mine", "--yes-delete", "mine")
    assert audited() == sound and not any(count_all(mine.pk).values())
