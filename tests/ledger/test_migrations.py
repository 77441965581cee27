"""The migrations that have landed: additive from here on, and no request waits for a new one."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import DatabaseError, OperationalError, connection, migrations, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState

from ledger.migrations._steps import SquashedMigration
from tests.elsewhere import blocked
from tests.factories import make_agent, send
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("migrations.sha256")
# Before these, an index was built while nothing could write to its table.
LAST_WITH_LOCKS = {"ledger": "0028", "retries": "0018"}
PLAIN_INDEX = re.compile(r"create (unique )?index (?!concurrently)", re.IGNORECASE)


def test_landed_migrations_never_change() -> None:
    """Installations have applied these files, so a change to one would never reach them.

    To change the database, add a migration and append its line to the record:
    `sha256sum APP/migrations/NAME.py >> tests/ledger/migrations.sha256`.
    """
    recorded = {path: digest for digest, path in map(str.split, RECORD.read_text().splitlines())}
    found = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in ROOT.glob("*/migrations/*.py")
        if path.stem != "__init__"
    }
    assert found == recorded


def list_operations(operations: Iterable[Operation]) -> Iterator[Operation]:
    for each in operations:
        if isinstance(each, migrations.SeparateDatabaseAndState):
            yield from list_operations(each.database_operations)
        else:
            yield each


def list_migrations() -> dict[tuple[str, str], migrations.Migration]:
    """Return all migrations; the steps of squashed ones stand for these."""
    return {
        (each.app_label, each.name): each
        for migration in MigrationLoader(None).disk_migrations.values()
        for each in (
            migration.list_steps() if isinstance(migration, SquashedMigration) else [migration]
        )
    }


def read_step(name: str) -> tuple[migrations.Migration, ProjectState]:
    """Return a step of ledger's squashed migrations, and the state of the models before it."""
    loader = MigrationLoader(None)
    for migration in loader.disk_migrations.values():
        if isinstance(migration, SquashedMigration) and name in migration.steps:
            state = loader.project_state(migration.dependencies)
            for step in migration.list_steps():
                if step.name == name:
                    return step, state
                state = step.mutate_state(state, preserve=False)
    raise LookupError(name)


def blocks_writers(operation: Operation) -> bool:
    """Return whether an operation builds an index while its table can't be written."""
    if isinstance(operation, migrations.RunSQL):
        return bool(PLAIN_INDEX.search(str(operation.sql)))
    return isinstance(operation, migrations.AddIndex) and not isinstance(
        operation, AddIndexConcurrently
    )


def test_no_new_migration_builds_an_index_while_agents_wait() -> None:
    """Reports fail once they have waited for ten seconds: use AddIndexConcurrently.

    The indexes of a new table belong into the options of its CreateModel.
    """
    every = list_migrations()
    new = {
        key: migration
        for key, migration in every.items()
        if key[1][:4] > LAST_WITH_LOCKS.get(key[0], "9999")
    }
    assert ("ledger", "0029_dead_letter_open_task") in new
    found = [
        key
        for key, migration in new.items()
        if any(map(blocks_writers, list_operations(migration.operations)))
    ]
    assert found == []
    assert any(map(blocks_writers, every["ledger", "0019_event_people"].operations))


IS_VALID = "select indisvalid from pg_index where indexrelid = 'dead_letter_open_task'::regclass"


@pytest.mark.django_db(transaction=True)
def test_an_index_whose_build_was_cut_short_is_built_again(elsewhere: Any) -> None:
    step, state = read_step("0029_dead_letter_open_task")

    def build() -> None:
        with connection.cursor() as cursor:
            cursor.execute("set lock_timeout = '100ms'")
            cursor.execute(
                "create index concurrently dead_letter_open_task on ledger_deadletter (id)"
            )

    with connection.cursor() as cursor:
        cursor.execute("drop index dead_letter_open_task")
        with transaction.atomic():
            cursor.execute("lock table ledger_deadletter in row exclusive mode")
            assert isinstance(elsewhere(build).exception(PATIENCE_S), OperationalError)
        cursor.execute(IS_VALID)
        assert cursor.fetchone() == (False,)
        with connection.schema_editor(atomic=step.atomic) as editor:
            step.apply(state, editor)
        cursor.execute(IS_VALID)
        assert cursor.fetchone() == (True,)
        cursor.execute("show lock_timeout")
        assert cursor.fetchone() == ("10s",)


IS_WHOLE = """select i.indisvalid and not exists (
    select from pg_inherits p where p.inhparent = 'ledger_event'::regclass and not exists (
        select from pg_index x join pg_inherits y on y.inhrelid = x.indexrelid
        where x.indrelid = p.inhrelid and y.inhparent = i.indexrelid and x.indisvalid
    )
) from pg_index i where i.indexrelid = %s::regclass"""


@pytest.mark.django_db(transaction=True)
def test_moves_go_on_while_the_journal_gets_an_index(elsewhere: Any) -> None:
    """Each partition has its own index then; a run that was cut short is run again."""
    agent = make_agent()
    step, state = read_step("0032_event_actor")

    def build() -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"set lock_timeout = '{PATIENCE_S}s'")
        with connection.schema_editor(atomic=step.atomic) as editor:
            step.apply(state, editor)

    with connection.cursor() as cursor:
        cursor.execute("drop index event_acts, event_actor")
        cursor.execute("create index ledger_event_tail_actor on ledger_event_tail (id)")
        with transaction.atomic():
            cursor.execute("lock table ledger_event_tail in row exclusive mode")
            building = elsewhere(build)
            with blocked(building):
                elsewhere(lambda: send(agent, "Go on")).result(PATIENCE_S)
                assert not building.done()
        building.result(PATIENCE_S)
        for name in ("event_acts", "event_actor"):
            cursor.execute(IS_WHOLE, [name])
            assert cursor.fetchone() == (True,)


class Interrupted(SquashedMigration):
    steps = {
        "9001_first": [migrations.RunSQL("create table steps_first ()")],
        "9002_second": [
            migrations.RunSQL("create table steps_second ()"),
            migrations.RunSQL("insert into steps_missing default values"),
        ],
        "9003_third": [migrations.RunSQL("create table steps_third ()")],
    }


@pytest.mark.django_db(transaction=True)
def test_a_squashed_migration_that_was_cut_short_goes_on_with_the_next_step() -> None:
    def run() -> None:
        with connection.schema_editor(atomic=False) as editor:
            Interrupted("9001_squashed_9003", "ledger").apply(ProjectState(), editor)

    recorder = MigrationRecorder(connection)
    try:
        with pytest.raises(DatabaseError, match="steps_missing"):
            run()
        assert list_new_steps(recorder) == {"9001_first"}
        assert list_new_tables() == {"steps_first"}
        execute("create table steps_missing ()")
        run()
        assert list_new_steps(recorder) == set(Interrupted.steps)
        made = {"steps_first", "steps_second", "steps_third", "steps_missing"}
        assert list_new_tables() == made
    finally:
        for step in Interrupted.steps:
            recorder.record_unapplied("ledger", step)
        for table in list_new_tables():
            execute(f"drop table {table}")


def list_new_steps(recorder: MigrationRecorder) -> set[str]:
    return {name for _, name in recorder.applied_migrations() if name in Interrupted.steps}


def list_new_tables() -> set[str]:
    found = connection.introspection.table_names()
    return {name for name in found if name.startswith("steps_")}


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
