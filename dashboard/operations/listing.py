"""The list of operations: `state:stopped by:mara older:1d wrong branch`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dashboard.frame.rendering import SETTINGS, Visit
from dashboard.listing import Column, Listing, ListPage, State, equals, older_than, within
from dashboard.lists.query_box import ANY, Names, StateQuery, Values
from dashboard.lists.query_values import Period, read_age, read_period
from dashboard.lists.sorting import BY_ID
from dashboard.sentences.operations import words_of
from dashboard.wording.formatting import counted
from ledger.models import Project
from retries.models import Operation
from retries.models.operation import OperationQuerySet, OperationState
from retries.verbs.verb import Verb

# label, icon, CSS
STATES = {
    OperationState.WAITING: ("Starts soon", "s-queued", ""),
    OperationState.RUNNING: ("Running", "s-running", "st--running"),
    OperationState.DONE: ("Finished", "s-done", "st--done"),
    OperationState.STOPPED: ("Stopped", "pause", "st--retry"),
    OperationState.UNDONE: ("Undone", "undo", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationQuery(StateQuery):
    by: Values = ANY
    older: timedelta | None = None  # the time since its rows were counted
    started: Period | None = None


@dataclass(frozen=True, slots=True)
class OperationEntry:
    """An operation in the list, in words."""

    row: Operation
    words: Verb
    title: str
    label: str
    icon: str
    css: str


def build_entry(row: Operation) -> OperationEntry:
    label, icon, css = STATES[OperationState(row.state)]
    return OperationEntry(row, words_of(row.verb), describe_title(row), label, icon, css)


def describe_title(row: Operation) -> str:
    words, nouns = words_of(row.verb), counted(row.total, words_of(row.verb).row)
    match row.state:
        case OperationState.WAITING | OperationState.RUNNING:
            return f"{words.doing} {nouns}{words.tail}"
        case OperationState.UNDONE:
            return f"{words.do} {nouns}{words.tail}: undone"
    if row.changed == row.total:
        return f"{words.done.capitalize()} {nouns}{words.tail}"
    return f"{words.done.capitalize()} {row.changed:,} of {nouns}{words.tail}"


class OperationList(Listing[OperationQuery]):
    name = "operations"
    row_page = "operation"
    current = "settings"
    heading = "Operations"
    nouns = "operations"
    crumbs = (SETTINGS,)

    model = Operation
    query = OperationQuery
    keys = {
        "state": Names(tuple(OperationState.values)),
        "by": Names(),
        "older": read_age("older"),
        "started": read_period("started"),
        "created": read_period("created", "started"),
    }
    conditions = {
        "by": equals("actor_name"),
        "older": older_than("counted_at"),
        "started": within("counted_at"),
    }
    searched = ("reason", "query")
    states = {state.value: State(label, (state.value,)) for state, (label, *_) in STATES.items()}

    template = "operations/index.html"
    part = "operations/_operations.html"
    row = "operations/_row.html"
    empty = "operations/_none.html"
    bar = "listing__bar listing__bar--full"
    table = "tbl rows rows--plain ops"
    example = "by:mara  state:stopped  older:1d"
    columns = (
        Column("State"),
        Column("Operation"),
        Column("By"),
        Column("Reason", "c-md"),
        Column("Changed", "r"),
        Column("Left", "r c-md"),
        Column("Started", "r", "started", BY_ID),
    )
    default_sort = "-started"
    is_live = False
    is_compiled = False

    export_columns = {
        "id": "id",
        "verb": "verb",
        "by": "actor_name",
        "query": "query",
        "reason": "reason",
        "state": "state",
        "matching": "matching",
        "total": "total",
        "changed": "changed",
        "refused": "refused",
        "counted_at": "counted_at",
        "started_at": "started_at",
        "ended_at": "ended_at",
        "ended_by": "ended_by_name",
        "ended_because": "ended_because",
    }

    def rows(self, project: Project | None) -> OperationQuerySet:
        # An operation may have changed rows of other projects, too.
        rows = Operation.objects.all()
        return rows.filter(project_ids__contains=[project.id]) if project else rows

    def build_entries(self, page: ListPage, visit: Visit) -> list[Any]:
        return [build_entry(row) for row in page.page.rows]


OPERATIONS = OperationList()
