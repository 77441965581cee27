"""Read the rows of the page of one session: a page of messages, its to-dos, batches and notes."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, QuerySet, Subquery

from dashboard.sessions.conversation import INLINE, RECORD_PATTERN
from dashboard.sessions.conversation_items import Delivery, Said
from dashboard.sessions.tool_lines import TODO_TOOLS
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Attempt, Instruction, Message, Session, SessionBatch, SessionTask
from ledger.sessions.message_parts import Call, Result, parts_from_json

SHOWN = 100
# most messages of a page that grows while it is open
MOST = 400
# the messages above the target of a link
ABOVE = 10
# how far above its result a failed call is searched
CALL_WITHIN = 12
PLANNING_SHOWN = 8
DELIVERIES_SHOWN = 50
BATCHES_SHOWN = 2_000

# stored bytes from which the database cuts the long texts of a message
HEAVY = 16 * 1024
LIGHT = f"""case when pg_column_size(m.content) <= {HEAVY} then m.content else (
    select jsonb_agg(case
        when length(part->>'text') > {INLINE} then part || jsonb_build_object(
            'text', left(part->>'text', {INLINE}), 'length', length(part->>'text'))
        when length(part->>'arguments') > {INLINE} then part || jsonb_build_object(
            'length', length(part->>'arguments'),
            'arguments', (select coalesce(jsonb_object_agg(key, case
                when length(value #>> '{{}}') > 400 then to_jsonb(left(value #>> '{{}}', 400))
                else value end), '{{}}') from jsonb_each(part->'arguments')))
        else part end order by at)
    from jsonb_array_elements(m.content) with ordinality parts(part, at)) end"""

HAS_TEXT = """m.content @> '[{"type": "text"}]'"""
# the messages that each tab shows
TABS = {
    "errors": """m.content @> '[{"type": "tool_result", "is_error": true}]'""",
    "prompts": f"""m.role = 'user' and {HAS_TEXT} and not exists (
        select from jsonb_array_elements(m.content) part
        where part->>'type' = 'text' and part->>'text' ~ %(record)s)""",
    "todos": """m.role = 'assistant' and exists (
        select from jsonb_array_elements(m.content) part
        where part->>'type' = 'tool_call' and lower(part->>'name') = any(%(tools)s))""",
}
FOUND = """exists (select from jsonb_array_elements(m.content) part
    where part->>'text' ilike %(find)s or part->>'arguments' ilike %(find)s
        or part->>'name' ilike %(find)s)"""

MESSAGES = """select m."order" as number, m.role, {content} as content, m.state, m.sent_at as at,
    m.batch_id, m.attempt_id, t."order" as todo
from ledger_message m left join ledger_sessiontask t on t.id = m.session_task_id
where m.session_id = %(session)s and {where}
order by m."order" {direction} limit %(limit)s"""

DELIVERED = """select i.* from ledger_instruction i
where i.agent_id = %(agent)s and i.delivered_at between %(start)s and %(end)s
    and (i.delivered_to = %(external_id)s or i.delivered_to is null and not exists (
        select from ledger_session o
            join ledger_message f on f.session_id = o.id and f."order" = 1
            join ledger_message l on l.session_id = o.id and l."order" = o.message_count
        where o.agent_id = i.agent_id and o.id <> %(session)s
            and i.delivered_at between f.sent_at and l.sent_at))
order by i.delivered_at limit %(limit)s"""

COUNTS = "select {counts} from ledger_message m where m.session_id = %(session)s"


@dataclass(frozen=True, slots=True)
class Window:
    """Which messages a page shows; the last ones without a bound."""

    tab: str = ""
    find: str = ""
    state: str = ""
    before: int | None = None
    after: int | None = None
    at: int | None = None
    start: int | None = None  # the first message of a page that grows at its end

    @property
    def is_whole(self) -> bool:
        return not self.tab and not self.find and not self.state


@dataclass(frozen=True, slots=True)
class MessagePage:
    """The messages of a page in their order, and the numbers where its neighbors begin."""

    messages: list[Said] = field(default_factory=list)
    earlier: int | None = None
    later: int | None = None


def find_session(session_id: UUID) -> Session | None:
    first = Message.objects.filter(session=OuterRef("pk"), order=1)
    rows = Session.objects.select_related("agent", "project").filter(pk=session_id)
    return rows.annotate(first_sent_at=Subquery(first.values("sent_at")[:1])).first()


def list_messages(session: Session, window: Window, numbers: dict[UUID, int]) -> MessagePage:
    """Return the messages of a window; `numbers` has the number of each batch by its id."""
    where, direction, limit = "true", "desc", SHOWN
    if window.after is not None:
        where, direction = 'm."order" > %(bound)s', "asc"
    elif window.at is not None:
        where, direction = 'm."order" >= %(bound)s', "asc"
    elif window.start is not None:
        where, direction, limit = 'm."order" >= %(bound)s', "asc", MOST
    elif window.before is not None:
        where = 'm."order" < %(bound)s'
    bound = next(
        (n for n in (window.after, window.at, window.start, window.before) if n is not None), None
    )
    if window.at is not None and window.is_whole:
        # Some messages above the target of a link are shown, too.
        bound = max(1, window.at - ABOVE)
    if condition := TABS.get(window.tab) or (FOUND if window.find else ""):
        where = f"{where} and {condition}"
    if window.state:
        where = f"{where} and m.state = %(state)s"
    text = MESSAGES.format(content=LIGHT, where=where, direction=direction)
    rows = sql.run(text, **params(session, window), bound=bound, limit=limit + 1)
    more = len(rows) > limit
    rows = rows[:limit] if direction == "asc" else rows[:limit][::-1]
    if not rows:
        return MessagePage()
    said = [read_message(row, numbers) for row in rows]
    first, last = said[0].number, said[-1].number
    is_forward = direction == "asc"
    has_earlier = (is_forward and bound is not None and first > 1) or (not is_forward and more)
    has_later = (is_forward and more) or (not is_forward and window.before is not None)
    if window.tab == "errors":
        said = with_calls(session, said, numbers)
    return MessagePage(said, first if has_earlier else None, last if has_later else None)


def params(session: Session, window: Window) -> dict[str, Any]:
    escaped = window.find.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return {
        "session": session.pk,
        "record": RECORD_PATTERN,
        "tools": list(TODO_TOOLS),
        "state": window.state,
        "find": f"%{escaped}%",
    }


def read_message(row: sql.Row, numbers: dict[UUID, int]) -> Said:
    stored = row["content"]
    content = json.loads(stored) if isinstance(stored, str | bytes) else stored
    lengths = {n: part.pop("length") for n, part in enumerate(content) if "length" in part}
    batch = numbers.get(row["batch_id"]) if row["batch_id"] else None
    return Said(
        row["number"],
        row["role"],
        parts_from_json(content),
        row["state"],
        row["at"],
        batch=batch,
        attempt=row["attempt_id"],
        todo=row["todo"],
        lengths=lengths,
    )


def with_calls(session: Session, said: list[Said], numbers: dict[UUID, int]) -> list[Said]:
    """Return failed results with the calls they answer, and nothing else."""
    wanted = {n for each in said for n in range(each.number - CALL_WITHIN, each.number)}
    failed = {
        part.id
        for each in said
        for part in each.parts
        if isinstance(part, Result) and part.is_error
    }
    text = MESSAGES.format(
        content=LIGHT,
        where="""m."order" = any(%(orders)s) and m.role = 'assistant'""",
        direction="",
    )
    rows = sql.run(text, session=session.pk, orders=sorted(wanted), limit=len(wanted) or 1)
    found = [read_message(row, numbers) for row in rows] + said
    kept = [keep_parts(each, failed) for each in sorted(found, key=lambda each: each.number)]
    return [each for each in kept if each.parts]


def keep_parts(said: Said, ids: set[str]) -> Said:
    kept = [
        (n, part)
        for n, part in enumerate(said.parts)
        if isinstance(part, Call | Result) and part.id in ids
    ]
    lengths = {new: said.lengths[old] for new, (old, _) in enumerate(kept) if old in said.lengths}
    parts = tuple(part for _, part in kept)
    return replace(said, parts=parts, lengths=lengths)


def find_start(session: Any) -> datetime:
    start: datetime = session.first_sent_at or session.created_at
    return start


def find_message(session: Session, number: int) -> Message | None:
    return Message.objects.filter(session=session, order=number).first()


def find_result(session: Session, call_ids: set[str], after: int) -> Message | None:
    rows = Message.objects.filter(session=session, order__gt=after).order_by("order")
    for row in rows[: CALL_WITHIN * 4]:
        if any(
            part.get("type") == "tool_result" and part["id"] in call_ids for part in row.content
        ):
            return row
    return None


def count_tabs(session: Session) -> dict[str, int]:
    def count() -> dict[str, int]:
        counts = ", ".join(f"count(*) filter (where {each}) as {tab}" for tab, each in TABS.items())
        row = sql.run(COUNTS.format(counts=counts), **params(session, Window()))[0]
        return {tab: row[tab] for tab in TABS}

    # Stored messages never change, so their number identifies the counts.
    return get_or_compute_slow(f"session-tabs:{session.pk}:{session.message_count}", count)


def list_deliveries(session: Session, messages: list[Said]) -> list[Delivery]:
    """Return the instructions whose last delivery was to this session during these messages."""
    # A delivery without a session's name is shown where the agent had no other session at the time.
    if len(messages) < 2:
        return []
    values = {
        "session": session.pk,
        "agent": session.agent_id,
        "external_id": session.external_id,
        "start": messages[0].at,
        "end": messages[-1].at,
        "limit": DELIVERIES_SHOWN,
    }
    return [
        Delivery(row.pk, row.text, row.content, row.state, row.delivered_at, row.acknowledged_at)
        for row in Instruction.objects.raw(DELIVERED, values)
        if row.delivered_at
    ]


# ---- beside the conversation


@dataclass(frozen=True, slots=True)
class Todo:
    """A to-do with the numbers of its messages."""

    row: SessionTask
    numbers: list[int]


def list_todos(session: Session) -> list[Todo]:
    of = Message.objects.filter(session_task=OuterRef("pk")).order_by("order")
    rows = SessionTask.objects.filter(session=session).select_related("task").order_by("order")
    numbered: QuerySet[Any] = rows.annotate(numbers=ArraySubquery(of.values("order")))
    return [Todo(row, row.numbers) for row in numbered]


@dataclass(frozen=True, slots=True)
class Planning:
    """Messages about the plan as a whole."""

    count: int
    notes: list[tuple[int, str]]


def list_planning(session: Session) -> Planning:
    text = MESSAGES.format(content=LIGHT, where="m.planning", direction="desc")
    rows = sql.run(text, session=session.pk, limit=SHOWN)
    said = [read_message(row, {}) for row in rows]
    notes = [(each.number, text_of(each)) for each in said]
    return Planning(len(notes), [note for note in notes if note[1]][:PLANNING_SHOWN])


def text_of(said: Said) -> str:
    texts: Iterable[str] = (getattr(part, "text", "") for part in said.parts)
    return "\n".join(filter(None, texts))


def list_batches(session: Session) -> list[SessionBatch]:
    rows = SessionBatch.objects.filter(session=session).order_by("id")
    return list(rows[:BATCHES_SHOWN])


@dataclass(frozen=True, slots=True)
class Linked:
    """The attempt of the newest message shown, with its task."""

    attempt: Attempt
    is_live: bool


def find_attempt(messages: list[Said]) -> Linked | None:
    ids = [each.attempt for each in messages if each.attempt]
    if not ids:
        return None
    attempt = Attempt.objects.select_related("task").filter(pk=ids[-1]).first()
    return Linked(attempt, attempt.outcome is None) if attempt else None
