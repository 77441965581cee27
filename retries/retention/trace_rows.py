"""Spans of attempts that are over: they are kept as long as sessions are, or as their tasks."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from ledger.database import sql
from retries.retention.archives import Record
from retries.retention.row_kind import RowKind, build_records, run_all, select_records

SPANS_READ = 500

DELETABLE = """select s.id from retries_attempttrace s join ledger_attempt a on a.id = s.attempt_id
where s.id = any(%(ids)s) and s.updated_at < %(before)s and a.outcome is not null
order by 1"""
RECORDS = select_records(
    "trace",
    "jsonb_build_object('trace', to_jsonb(s))",
    "array[s.attempt_id::text]",
    "(select * from retries_attempttrace where id = any(%(ids)s) order by id) s",
    project="s.project_id",
)
SPANS = select_records(
    "span",
    "jsonb_build_object('span', to_jsonb(x))",
    "array[x.attempt_id::text, x.trace_id]",
    """(select * from retries_attemptspan
        where attempt_id = (select attempt_id from retries_attempttrace where id = %(id)s)
            and (trace_id, span_id) > (%(trace)s, %(span)s)
        order by trace_id, span_id limit %(most)s::int) x""",
    project="(select s.project_id from retries_attempttrace s where s.id = %(id)s)",
    also="x.trace_id, x.span_id, ",
)
# The row that a request with spans locks goes first: no span can come after it.
DELETE = ("delete from retries_attempttrace", "delete from retries_attemptspan")
ATTEMPTS = "select attempt_id from retries_attempttrace where id = any(%(ids)s)"


def read_traces(ids: Sequence[UUID]) -> Iterator[list[Record]]:
    if ids:
        yield build_records(sql.run(RECORDS, ids=list(ids)))
    for id in ids:
        yield from read_spans(id)


def read_spans(id: UUID) -> Iterator[list[Record]]:
    trace = span = ""
    while rows := sql.run(SPANS, id=id, trace=trace, span=span, most=SPANS_READ):
        yield build_records(rows)
        trace, span = rows[-1]["trace_id"], rows[-1]["span_id"]


def delete_traces(ids: Sequence[UUID]) -> None:
    found = [row["attempt_id"] for row in sql.run(ATTEMPTS, ids=list(ids))]
    run_all([f"{each} where attempt_id = any(%(ids)s)" for each in DELETE], ids=found)


KIND = RowKind(
    name="traces",
    setting="SESSION_DAYS",
    table="retries_attempttrace",
    searched=10,
    deletable=DELETABLE,
    records=[],
    delete_rows=delete_traces,
    more_records=read_traces,
)
