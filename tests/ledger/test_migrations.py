"""The migrations that have landed: additive from here on, and no request waits for a new one."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import OperationalError, connection, migrations, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

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
    loader = MigrationLoader(None)
    new = {
        key: migration
        for key, migration in loader.disk_migrations.items()
        if key[1][:4] > LAST_WITH_LOCKS.get(key[0], "9999")
    }
    assert ("ledger", "0029_dead_letter_open_task") in new
    found = [
        key
        for key, migration in new.items()
        if any(map(blocks_writers, list_operations(migration.operations)))
    ]
    assert found == []
    assert any(
        map(blocks_writers, loader.disk_migrations["ledger", "0019_event_people"].operations)
    )


IS_VALID = "select indisvalid from pg_index where indexrelid = 'dead_letter_open_task'::regclass"


@pytest.mark.django_db(transaction=True)
def test_an_index_whose_build_was_cut_short_is_built_again(elsewhere: Any) -> None:
    loader = MigrationLoader(connection)
    migration = loader.get_migration("ledger", "0029_dead_letter_open_task")

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
        state = loader.project_state(("ledger", "0028_task_retried"))
        with connection.schema_editor(atomic=migration.atomic) as editor:
            migration.apply(state, editor)
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
    migration = MigrationLoader(connection).get_migration("ledger", "0032_event_actor")

    def build() -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"set lock_timeout = '{PATIENCE_S}s'")
        with connection.schema_editor(atomic=migration.atomic) as editor:
            migration.apply(
                MigrationLoader(connection).project_state(migration.dependencies), editor
            )

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
