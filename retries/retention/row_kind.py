"""A kind of rows that retention archives and deletes whole: how to find, read and delete them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from ledger.database import sql
from ledger.values.ids import first_id
from retries.retention.archives import Record

FIRST_ID = UUID(int=0)
# We never wait for a lock, so that nothing waits behind us.
LOCK_TIMEOUT = "100ms"


class Held(Exception):
    """Someone works with these rows: a later run finds them again."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Rows that ended before a time, of one project or of all."""

    before: datetime
    project_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The rows to delete among the next ones that were searched, up to `last`."""

    ids: Sequence[UUID]
    last: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKind:
    """`searched` limits a search, whatever it finds.

    `deletable` selects those of `ids` that nothing needs, and the rows that go with them.
    `records` has the statements for the archive. `delete_rows` deletes locked rows, and raises Held
    if it can't. `shrink` deletes parts of rows that are too large for one transaction.
    """

    name: str
    setting: str
    table: str
    searched: int
    deletable: str
    records: Sequence[str]
    delete_rows: Callable[[Sequence[UUID]], None]
    more_records: Callable[[Sequence[UUID]], Iterator[list[Record]]] | None = None
    shrink: Callable[[Sequence[UUID], Scope], None] | None = None

    def find(self, after: UUID, scope: Scope) -> Found | None:
        # an id begins with the time of its row's creation
        rows = sql.run(
            f"""select id from {self.table} where id > %(after)s and id < %(bound)s
                and (%(project)s::uuid is null or project_id = %(project)s)
            order by id limit {self.searched}""",
            after=after,
            bound=first_id(scope.before),
            project=scope.project_id,
        )
        ids = [row["id"] for row in rows]
        return Found(self.list_deletable(ids, scope), ids[-1]) if ids else None

    def list_deletable(self, ids: Sequence[UUID], scope: Scope) -> list[UUID]:
        rows = sql.run(self.deletable, ids=list(ids), before=scope.before)
        return [row["id"] for row in rows]

    def read(self, ids: Sequence[UUID]) -> Iterator[list[Record]]:
        for statement in self.records:
            yield build_records(sql.run(statement, ids=list(ids)))
        if self.more_records:
            yield from self.more_records(ids)

    def delete(self, ids: Sequence[UUID], scope: Scope) -> int:
        """Delete the rows that may still be deleted; return how many."""
        if self.shrink:
            self.shrink(ids, scope)
        try:
            return self.delete_held(ids, scope)
        except Held:
            return 0

    @transaction.atomic
    def delete_held(self, ids: Sequence[UUID], scope: Scope) -> int:
        held = hold(self.table, ids)
        # Something may have happened since they were found, such as a replay.
        free = self.list_deletable(held, scope)
        if not set(held).issuperset(free):
            raise Held
        if free:
            self.delete_rows(free)
        return len(free)


def hold(table: str, ids: Sequence[UUID]) -> list[UUID]:
    sql.run(f"select set_config('lock_timeout', '{LOCK_TIMEOUT}', true)")
    rows = sql.run(
        f"select id from {table} where id = any(%(ids)s) order by id for update skip locked",
        ids=list(ids),
    )
    return [row["id"] for row in rows]


def build_records(rows: Iterable[sql.Row]) -> list[Record]:
    return [Record(row["text"], row["project_id"]) for row in rows]


def select_records(
    kind: str, content: str, names: str, source: str, *, project: str = "p.id", also: str = ""
) -> str:
    """Return the statement that selects the records of `source`, and other columns.

    `content` is the SQL of a JSON object, `names` that of an array of texts, and `project` that of
    a project's id.
    """
    return f"""select {also}{project} as project_id, (
    jsonb_build_object('kind', '{kind}', 'names', to_jsonb(n.names)) || {content}
)::text as text
from {source} cross join lateral (select {names} as names) n"""


def list_json(table: str, where: str, order: str) -> str:
    return f"""(select coalesce(jsonb_agg(to_jsonb(x) order by {order}), '[]')
        from {table} x where {where})"""


def run_all(statements: Sequence[str], **params: object) -> None:
    for statement in statements:
        sql.run(statement, **params)
