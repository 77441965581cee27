"""Store the spans of attempts, each once, and count the usage that they bring.

A span belongs to the attempt that it names, or to the one that its trace was claimed for. Where
several attempts were claimed in one trace, it belongs to the last that had begun by then.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger.authorization.principal import Principal
from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import Stamp
from ledger.tasks import steps
from ledger.values.text import counted
from retries.traces.otlp import ATTEMPT, SentSpan
from retries.traces.usage import SOURCE, SPANS, add_usage

MOST_SPANS = 5_000  # of an attempt
# those with usage, which a budget needs, may be more
MOST_WITH_USAGE = 2 * MOST_SPANS
MOST_SENT = 10_000  # of a request
# Reading a span takes half a millisecond of Python's lock, for which claims wait: it rests between.
REST_EVERY, REST_S = 2, 0.0005
MOST_OF_TRACE = 100  # attempts of one trace among which a span finds its own

MALFORMED, UNKNOWN, BEYOND, TOO_MANY = "malformed", "unknown", "beyond", "too many"
# why spans were rejected, and what to do
REASONS: Mapping[str, str] = {
    UNKNOWN: "{} of no attempt of this token: claim with the header traceparent of the trace, or "
    f"give the spans or their resource the attribute {ATTEMPT}",
    MALFORMED: "{} without a valid trace id, span id, start and end",
    BEYOND: f"{{}} beyond the {MOST_SPANS:,} of an attempt: sample them or leave out small ones",
    TOO_MANY: f"{{}} beyond the {MOST_SENT:,} of a request: export smaller batches",
}


@dataclass(slots=True)
class Received:
    """The result of a request: how many spans were rejected, by reason."""

    rejected: Counter[str] = field(default_factory=Counter)

    def describe(self) -> str:
        """Return what was rejected and what to do, or nothing.

        >>> Received(Counter({MALFORMED: 2})).describe()
        'Not stored: 2 spans without a valid trace id, span id, start and end.'
        """
        parts = [
            sentence.format(counted(self.rejected[reason], "span"))
            for reason, sentence in REASONS.items()
            if self.rejected[reason]
        ]
        return f"Not stored: {'; '.join(parts)}." if parts else ""


COLUMNS = "a.id, a.trace_id, a.started_at, a.task_id, a.agent_id, t.project_id, t.plan_id"
VISIBLE = """t.project_id = %(project)s
    and (%(agent)s::uuid is null or a.agent_id = %(agent)s)"""
FIND = f"""select {COLUMNS} from ledger_attempt a join ledger_task t on t.id = a.task_id
where a.id = any(%(ids)s::uuid[]) and {VISIBLE}
union all
select x.* from unnest(%(traces)s::text[]) as g(trace_id) cross join lateral (
    select {COLUMNS} from ledger_attempt a join ledger_task t on t.id = a.task_id
    where a.trace_id = g.trace_id and a.trace_id <> '' and {VISIBLE}
    order by a.id desc limit {MOST_OF_TRACE}
) x"""

# The task comes first, as in a report's transaction.
HOLD_TASK = "select id from ledger_task where id = %(id)s for no key update"
HOLD_ATTEMPT = "select id from ledger_attempt where id = %(id)s for no key update"
HOLD_TRACE = """insert into retries_attempttrace (project_id, attempt_id, updated_at)
values (%(project)s, %(id)s, %(now)s)
on conflict (attempt_id) do update set updated_at = excluded.updated_at"""

TYPES = {
    "attempt_id": "uuid",
    "trace_id": "text",
    "span_id": "text",
    "parent_id": "text",
    "name": "text",
    "kind": "int2",
    "started_at": "timestamptz",
    "ended_at": "timestamptz",
    "status": "int2",
    "message": "text",
    "attributes": "jsonb",
    "usage": "jsonb",
}
NAMES = ", ".join(TYPES)
SENT = [*(name for name in TYPES if name != "attempt_id"), "is_call"]
ID = "attempt_id, trace_id, span_id"
# A span that is stored already changes nothing. A call of a model does not count if the call above
# it does, or if one below it has usage: programs often trace both their own call and that of a
# library that it makes, and the sum of an agent.
STORE = f"""with given as materialized (
    select distinct on ({ID}) g.*
    from jsonb_to_recordset(%(spans)s::jsonb) as g(number int, is_call bool,
        {", ".join(f"{name} {type}" for name, type in TYPES.items())})
    order by {ID}, g.number
), fresh as materialized (
    select g.*, row_number() over (
        partition by g.attempt_id order by g.usage is null, g.number) as place
    from given g left join retries_attemptspan s using ({ID}) where s.span_id is null
), stored as (
    insert into retries_attemptspan ({NAMES}, counted)
    select {", ".join(f"f.{name}" for name in TYPES)}, f.is_call
        and not exists (select from fresh b where b.attempt_id = f.attempt_id
            and b.trace_id = f.trace_id and b.parent_id = f.span_id and b.usage is not null)
        and not exists (select from retries_attemptspan b where b.attempt_id = f.attempt_id
            and b.parent_id = f.span_id and b.usage is not null)
        and not exists (select from retries_attemptspan o where o.attempt_id = f.attempt_id
            and o.trace_id = f.trace_id and o.span_id = f.parent_id and o.counted)
    from fresh f join retries_attempttrace t on t.attempt_id = f.attempt_id
    where f.place + t.spans <= case when f.usage is null then {MOST_SPANS}
        else {MOST_WITH_USAGE} end
    returning attempt_id, usage, counted
), counts as (
    select f.attempt_id, count(*) as fresh, (select count(*) from stored s
        where s.attempt_id = f.attempt_id) as stored
    from fresh f group by 1
)
update retries_attempttrace t
set spans = t.spans + c.stored, dropped = t.dropped + c.fresh - c.stored
from counts c where t.attempt_id = c.attempt_id
returning t.attempt_id, t.usage, (c.fresh - c.stored)::int as dropped,
    (select coalesce(jsonb_agg(s.usage), '[]') from stored s
        where s.attempt_id = t.attempt_id and s.counted) as counted"""

# The usage of a heartbeat or a report stays as it is.
COUNT = f"""with added as (
    update retries_attempttrace set usage = %(usage)s where attempt_id = %(attempt)s
)
update ledger_attempt a set usage = %(usage)s
where a.id = %(attempt)s and (a.usage is null or a.usage ->> '{SOURCE}' = '{SPANS}')
returning a.id"""


def receive_spans(
    spans: Iterable[SentSpan | None], *, count: int, principal: Principal, stamp: Stamp
) -> Received:
    """Store the spans of attempts that the token may see; return what was rejected."""
    received, sent = Received(Counter({TOO_MANY: max(0, count - MOST_SENT)})), []
    for number, span in enumerate(islice(spans, MOST_SENT)):
        if number % REST_EVERY == 0:
            time.sleep(REST_S)
        if span is None:
            received.rejected[MALFORMED] += 1
        else:
            sent.append(span)
    attempts = find_attempts(sent, principal)
    found: dict[UUID, Row] = {}
    rows: dict[UUID, list[dict[str, Any]]] = {}
    for number, span in enumerate(sent):
        attempt = attempts.find(span)
        if attempt is None:
            received.rejected[UNKNOWN] += 1
            continue
        found[attempt["id"]] = attempt
        row = {name: getattr(span, name) for name in SENT}
        row |= {"attempt_id": attempt["id"], "number": number}
        rows.setdefault(attempt["id"], []).append(row)
    # Each attempt's are committed before the next is locked, so that no task waits for them all. If
    # one fails, the client sends all again, and those that are stored change nothing.
    for id in sorted(rows):
        received.rejected[BEYOND] += store_spans(rows[id], found[id], stamp=stamp)
    return received


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts that a request's spans may belong to."""

    by_id: Mapping[UUID, Row]
    by_trace: Mapping[str, Sequence[Row]]  # by their start

    def find(self, span: SentSpan) -> Row | None:
        if span.attempt is not None:
            return self.by_id.get(span.attempt)
        found = self.by_trace.get(span.trace_id, ())
        begun = [row for row in found if row["started_at"] <= span.started_at]
        return begun[-1] if begun else next(iter(found), None)


def find_attempts(spans: Sequence[SentSpan], principal: Principal) -> Attempts:
    rows = sql.run(
        FIND,
        ids=list({span.attempt for span in spans if span.attempt}),
        traces=list({span.trace_id for span in spans if not span.attempt}),
        project=principal.project_id,
        agent=principal.agent_id if principal.is_agent else None,
    )
    by_trace: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["started_at"], row["id"])):
        by_trace.setdefault(row["trace_id"], []).append(row)
    return Attempts({row["id"]: row for row in rows}, by_trace)


@sql.atomic
def store_spans(rows: list[dict[str, Any]], attempt: Row, *, stamp: Stamp) -> int:
    """Store spans of an attempt, and count their usage; return how many were dropped."""
    # Only spans with usage change more than the attempt's own spans.
    if any(row["is_call"] for row in rows):
        sql.run(HOLD_TASK, id=attempt["task_id"])
        sql.run(HOLD_ATTEMPT, id=attempt["id"])
    sql.run(HOLD_TRACE, id=attempt["id"], project=attempt["project_id"], now=stamp.at)
    stored = sql.run(STORE, spans=Jsonb(rows))
    for row in stored:
        if row["counted"]:
            count_usage(attempt, row["usage"], row["counted"], stamp=stamp)
    return sum(row["dropped"] for row in stored)


def count_usage(
    attempt: Row, former: Mapping[str, Any] | None, usages: Sequence[Any], *, stamp: Stamp
) -> None:
    """Count usage for an attempt, unless it told its own, and for what limits it."""
    total = add_usage(former, usages)
    if sql.run(COUNT, attempt=attempt["id"], usage=Jsonb(total)):
        steps.take_more(attempt | {"id": attempt["task_id"], "usage_before": former}, total, stamp)
