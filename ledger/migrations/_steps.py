"""Squashed migrations that run step by step, and the parts that their steps share.

Each step keeps the name of the migration that it was. A database at any step takes the ones that
are missing, and a run that was cut short goes on where it stopped. Like the migrations that use it,
this module never changes once it has landed.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain
from typing import Any, ClassVar

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import models, transaction
from django.db.migrations import Migration, RunSQL
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.expressions import RawSQL

from ledger.models.fields import UUIDv7


class SquashedMigration(Migration):
    atomic = False  # each step is, unless it is named here
    steps: ClassVar[dict[str, list[Operation]]]
    not_atomic: ClassVar[set[str]] = set()

    def __init_subclass__(cls) -> None:
        cls.operations = [*chain.from_iterable(cls.steps.values())]

    def list_steps(self) -> Iterator[Migration]:
        for name, operations in self.steps.items():
            step = Migration(name, self.app_label)
            step.operations, step.atomic = operations, name not in self.not_atomic
            yield step

    def apply(self, project_state: Any, schema_editor: Any, collect_sql: bool = False) -> Any:
        if collect_sql:
            return super().apply(project_state, schema_editor, collect_sql)
        connection = schema_editor.connection
        recorder = MigrationRecorder(connection)
        applied = recorder.applied_migrations()
        for step in self.list_steps():
            if (step.app_label, step.name) in applied:
                project_state = step.mutate_state(project_state, preserve=False)
                continue
            with transaction.atomic(connection.alias) if step.atomic else nullcontext():
                with connection.schema_editor(atomic=step.atomic) as editor:
                    project_state = step.apply(project_state, editor)
                recorder.record_applied(step.app_label, step.name)
        return project_state

    def unapply(self, project_state: Any, schema_editor: Any, collect_sql: bool = False) -> Any:
        project_state = super().unapply(project_state, schema_editor, collect_sql)
        for step in () if collect_sql else self.steps:
            MigrationRecorder(schema_editor.connection).record_unapplied(self.app_label, step)
        return project_state


def build_beside_writers(model: str, index: models.Index) -> list[Operation]:
    """Return the operations that build an index while agents go on reporting.

    The build waits for older transactions, and nothing waits for it. A transaction of a backup, for
    example, can take longer than a request may wait for a lock. A build that was cut short leaves
    an index that is invalid, and its name is taken.
    """
    wait, no_long_wait = "set lock_timeout = 0", "reset lock_timeout"
    return [
        RunSQL(wait, no_long_wait),
        RunSQL(f"drop index concurrently if exists {index.name}", RunSQL.noop),
        AddIndexConcurrently(model, index),
        RunSQL(no_long_wait, wait),
    ]


def uuid7() -> models.UUIDField:
    return models.UUIDField(db_default=UUIDv7(), editable=False, primary_key=True, serialize=False)


def key(to: str, on_delete: Any = models.PROTECT, **options: Any) -> models.ForeignKey:
    return models.ForeignKey(to, on_delete, db_index=False, **options)


def own_key(to: str, **options: Any) -> models.OneToOneField:
    return models.OneToOneField(to, models.CASCADE, primary_key=True, serialize=False, **options)


def titled(*values: str) -> list[tuple[str, str]]:
    return [(value, value.replace("_", " ").title()) for value in values]


def index(name: str, *fields: str, **options: Any) -> models.Index:
    return models.Index(fields=fields, name=name, **options)


def unique(name: str, *fields: str, **options: Any) -> models.UniqueConstraint:
    return models.UniqueConstraint(fields=fields, name=name, **options)


def check(name: str, condition: str | models.Q) -> models.CheckConstraint:
    if isinstance(condition, str):
        condition = RawSQL(condition, (), models.BooleanField())  # noqa: S611 - of a migration
    return models.CheckConstraint(condition=condition, name=name)
