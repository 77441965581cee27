"""Send, deliver, acknowledge and cancel instructions. `retries.reminders` sends reminders."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from psycopg.types.json import Jsonb

from ledger import journal, moves
from ledger.database import server_time, sql
from ledger.database.sql import Row
from ledger.errors import Invalid, InvalidTransition, NotFound
from ledger.instruction_records import receipts
from ledger.journal import SYSTEM, Actor, Kind, Stamp
from ledger.models import Agent, Instruction, Project, Task
from ledger.models.instruction import OnFailed
from ledger.moves import instruction_to
from ledger.secrets.notes import clean_note, noted
from ledger.states import INSTRUCTION_MOVES, UNSETTLED, InstructionState, Way
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller, require_caller, select_unseen
from ledger.values.poll_waits import compute_poll_wait

CONTENT_BYTES = 8192
MAX_RETRIES = 20
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
NOTE_LENGTH = 2000
EXPECT_TYPE_LENGTH = 64
MATCH_SCALARS = 8

# the rows that a caller may touch: an agent its own, every other caller those of its project
OWN = "i.project_id = c.project_id and (c.agent_id is null or i.agent_id = c.agent_id)"
# Behind a select, the planner does not see the length of the list and uses one generic plan; to
# plan for every length costs more than to run the statement.
IDS = "array(select unnest(%(ids)s::uuid[]))"
RETRIES = "jsonb_build_object('retry_count', m.retry_count)"


def insert_event(source: str, kind: Kind, *, data: str = RETRIES) -> str:
    return journal.insert(source, kind=f"'{kind}'", subject="instruction", data=data)


LATE_ACK_EVENT = journal.insert_without_states(
    "late", kind=f"'{Kind.INSTRUCTION_ACKNOWLEDGED_LATE}'", subject="instruction", data=RETRIES
)


@dataclass(frozen=True, slots=True)
class Expect:
    """The signal that acknowledges an instruction: its type and what its data must contain."""

    type: str
    match: dict[str, Any] | None = None


def check_content(content: str) -> str:
    """Return the content; raises Invalid if it is blank, too long or has control characters."""
    if not content.strip():
        raise Invalid("/content", "An instruction's content must not be blank.")
    size = len(content.encode(errors="surrogatepass"))
    if size > CONTENT_BYTES:
        raise Invalid("/content", f"The content has {size} bytes; the limit is {CONTENT_BYTES}.")
    if found := CONTROL.search(content):
        raise Invalid(
            "/content",
            f"The content has the control character U+{ord(found[0]):04X} at {found.start()}; "
            "only tab and newline are allowed.",
        )
    return content


def check_expect(expect: Expect | None) -> Expect | None:
    """Return the expectation; raises Invalid if no signal could ever match it."""
    if expect is None:
        return None
    if not expect.type.strip() or len(expect.type) > EXPECT_TYPE_LENGTH:
        raise Invalid("/expect/type", f"type must have 1 to {EXPECT_TYPE_LENGTH} characters.")
    match = expect.match or {}
    if len(match) > MATCH_SCALARS:
        raise Invalid("/expect/match", f"match must have at most {MATCH_SCALARS} values.")
    for name, value in match.items():
        if isinstance(value, (dict, list)):
            raise Invalid(
                f"/expect/match/{name}",
                "Only strings, numbers, true, false and null can be matched.",
            )
    return expect


SEND = f"""with {TrustedCaller.cte}, sent as (
    insert into ledger_instruction as i (project_id, agent_id, content, content_sha256, tracked,
        state, max_retries, expect_type, expect_match, on_failed, task_id, position, resend_of_id,
        sent_by_type, sent_by_id, sent_by_name, queued_at, updated_at)
    select c.project_id, c.agent_id, %(content)s, %(sha256)s, %(tracked)s,
        '{InstructionState.QUEUED}', %(max_retries)s, %(expect_type)s, %(expect_match)s,
        %(on_failed)s, %(task)s::uuid,
        nextval('ledger_instruction_position') * %(sign)s, %(resend_of)s::uuid,
        c.actor_type, c.actor_id, c.actor_name, %(now)s, %(now)s
    from caller c
    -- locks the row that it finds; if an ack commits meanwhile, this becomes an insert after all
    on conflict (agent_id, content_sha256) where tracked and state in ('queued', 'delivered')
        do update set content = i.content
    returning {moves.instruction_columns("i")}, null as from_state,
        old.id is not null as deduplicated
), fresh as (select * from sent where not deduplicated
), journaled as ({insert_event("fresh", Kind.INSTRUCTION_QUEUED, data="'{}'::jsonb")})
select sent.*, c.agent_name from sent, caller c"""


def send(agent: Agent, content: str, **options: Any) -> Row:
    """Insert an instruction into the agent's queue, as `send_one` does.

    One to a pool goes to each member. The row is that of the first one, and `also_sent` has the ids
    of the others.
    """
    if not agent.is_pool:
        return send_one(agent, content, **options)
    return send_to_members(agent, content, **options)


@sql.atomic
def send_to_members(pool: Agent, content: str, **options: Any) -> Row:
    members = Agent.objects.filter(pool_seats__pool=pool).order_by("name")
    rows = [send_one(member, content, **options) for member in members]
    if not rows:
        raise Invalid("/agent", f"The pool {pool.name} has no members. Add one, then send it.")
    return rows[0] | {"also_sent": [row["id"] for row in rows[1:]]}


def send_one(
    agent: Agent,
    content: str,
    *,
    tracked: bool = True,
    max_retries: int | None = None,
    expect: Expect | None = None,
    priority: bool = False,
    on_failed: str | None = None,
    task: UUID | None = None,
    resend_of: UUID | None = None,
    stamp: Stamp,
) -> Row:
    """Insert an instruction into the agent's queue and return its row, with `deduplicated`.

    If a tracked instruction with the same content is still unsettled, return that one instead. An
    instruction about a task, or from a person, is escalated by default when it fails.
    """
    retries = settings.TENFOUR["INSTRUCTION_MAX_RETRIES"] if max_retries is None else max_retries
    if not 0 <= retries <= MAX_RETRIES:
        raise Invalid("/max_retries", f"max_retries must be an integer from 0 to {MAX_RETRIES}.")
    if expect and not tracked:
        raise Invalid(
            "/expect", "A plain instruction is never acknowledged, so it can't expect a signal."
        )
    expect = check_expect(expect)
    if task and not Task.objects.filter(pk=task, project=agent.project_id).exists():
        raise Invalid("/task", f"There is no task {task} in this project.")
    default = OnFailed.ESCALATE if task or stamp.actor.type == "user" else OnFailed.RECORD
    return sql.run(
        SEND,
        content=check_content(content),
        sha256=hashlib.sha256(content.encode()).digest(),
        tracked=tracked,
        max_retries=retries if tracked else 0,
        expect_type=expect.type if expect else None,
        expect_match=Jsonb(expect.match or {}) if expect else None,
        on_failed=on_failed or default.value,
        task=task,
        sign=-1 if priority else 1,
        resend_of=resend_of,
        now=stamp.at,
        **TrustedCaller(stamp.actor, agent=agent, request_id=stamp.request_id).params,
    )[0]


def queue_instruction(
    agent: Agent, content: str, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> None:
    """Send a plain instruction: delivered once, without tracking or reminders."""
    send(agent, content, tracked=False, stamp=Stamp(actor, now or server_time.now()))


def queue_instruction_with_ack(
    agent: Agent,
    content: str,
    max_retries: int | None = None,
    *,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
) -> str:
    """Send a tracked instruction and return its id, which the ack must name."""
    return str(
        send(agent, content, max_retries=max_retries, stamp=Stamp(actor, now or server_time.now()))[
            "id"
        ]
    )


def pull_statement(caller: type[Caller]) -> str:
    deliver = instruction_to(
        InstructionState.DELIVERED,
        where="i.id = any(array(select id from picked))",
        sets=f"deliveries = i.deliveries + 1, {receipts.DELIVERY}",
    )
    return f"""with {caller.cte}, picked as materialized (
        select id from ledger_instruction
        where agent_id = (select agent_id from caller) and state = '{InstructionState.QUEUED}'
        -- behind a select for the same reason as IDS
        order by position limit (select %(limit)s::int) for update skip locked
    ), moved as ({deliver}),
    journaled as ({insert_event("moved", Kind.INSTRUCTION_DELIVERED, data=receipts.DELIVERY_DATA)}),
    {receipts.mark_read("(select agent_id from caller)")}
    select m.*, c.agent_name, c.idle_s, {select_unseen("m.id")}
    from caller c left join moved m on true
    where c.agent_id is not null order by m.position"""


def acknowledge_statement(caller: type[Caller]) -> str:
    # A token acknowledges only for its own agent; a trusted caller for any agent of its project.
    own = OWN if caller is TrustedCaller else "i.agent_id = c.agent_id"
    ack = instruction_to(
        InstructionState.ACKNOWLEDGED,
        where=f"i.id = any({IDS}) and {own} and i.tracked",
        sets="outcome = %(outcome)s, note = %(note)s, acknowledged_by = "
        f"jsonb_build_object('actor', c.actor_type, 'name', c.actor_name), {receipts.FOLLOWED}",
    )
    event = journal.insert(
        "moved",
        kind="%(kind)s",
        subject="instruction",
        data="jsonb_build_object('retry_count', m.retry_count, 'outcome', m.outcome)",
    )
    return f"""with {caller.cte}, moved as ({ack}), journaled as ({event})
    select m.*, c.agent_name, {select_unseen("m.id")} from caller c left join moved m on true
    where {"true" if caller is TrustedCaller else "c.agent_id is not null"}"""


PULL: Statements = {caller: pull_statement(caller) for caller in (Bearer, TrustedCaller)}
ACKNOWLEDGE: Statements = {
    caller: acknowledge_statement(caller) for caller in (Bearer, TrustedCaller)
}


@dataclass(frozen=True, slots=True)
class PullResult:
    """Instructions that were delivered, and the seconds until the next pull."""

    rows: list[Row]
    retry_after_s: int


def deliver(
    caller: Caller,
    *,
    limit: int = 10,
    via: str = Way.PULL,
    session: str | None = None,
    call: int | None = None,
    began: datetime | None = None,
    now: datetime | None = None,
) -> PullResult:
    """Deliver up to `limit` instructions from the head of the caller's queue.

    What was delivered before `began`, by default now, is marked as read. `session` is the external
    id of the conversation that gets them, and `call` the number of its call, where the caller
    knows them.
    """
    now = now or server_time.now()
    rows = sql.run(
        PULL[type(caller)],
        limit=limit,
        via=via,
        session=session,
        call=call,
        began=began or now,
        now=now,
        **caller.params,
    )
    found = require_caller(rows, caller, now)
    if found:
        return PullResult(found, 0 if len(found) == limit else compute_poll_wait(0))
    return PullResult([], compute_poll_wait(rows[0]["idle_s"]))


def pull(caller: Caller, **options: Any) -> list[Row]:
    """Deliver instructions as `deliver` does and return them."""
    return deliver(caller, **options).rows


def acknowledge(
    ids: Sequence[UUID],
    *,
    caller: Caller,
    outcome: str = "done",
    note: str = "",
    now: datetime | None = None,
) -> list[Row | None]:
    """Acknowledge instructions; return a row for each id in order, None for an unknown id.

    An instruction that was acknowledged before comes back unchanged. So does one that had failed or
    was cancelled, with `late`; the first late ack is journaled.
    """
    now = now or server_time.now()
    kind = Kind.INSTRUCTION_DECLINED if outcome == "declined" else Kind.INSTRUCTION_ACKNOWLEDGED
    rows = sql.run(
        ACKNOWLEDGE[type(caller)],
        ids=list(ids),
        outcome=outcome,
        note=clean_note(note) if note else "",
        kind=kind.value,
        now=now,
        **caller.params,
    )
    found = {row["id"]: row for row in require_caller(rows, caller, now)}
    missing = [each for each in ids if each not in found]
    if missing:
        found |= {row["id"]: row for row in fetch_settled(missing, caller=caller, now=now)}
    return [found.get(each) for each in ids]


def fetch_settled(ids: list[UUID], *, caller: Caller, now: datetime) -> list[Row]:
    """Return the caller's instructions that an ack could not move; journal the first late ack."""
    sql.run(
        f"""with {caller.cte}, late as (
            update ledger_instruction i set late_ack_at = %(now)s from caller c
            where i.id = any({IDS}) and {OWN} and i.late_ack_at is null
                and i.tracked
                and i.state in ('{InstructionState.FAILED}', '{InstructionState.CANCELLED}')
            returning i.*
        ) {LATE_ACK_EVENT}""",
        ids=ids,
        now=now,
        **caller.params,
    )
    rows = sql.run(
        f"""with {caller.cte} select {moves.instruction_columns("i")}, a.name as agent_name,
            i.state in ('{InstructionState.FAILED}', '{InstructionState.CANCELLED}') as late
        from caller c, ledger_instruction i join ledger_agent a on a.id = i.agent_id
        where i.id = any({IDS}) and {OWN}""",
        ids=ids,
        now=now,
        **caller.params,
    )
    return rows


LAST_DELIVERED = f"""with {Bearer.cte}
    select i.id, c.unheard as unseen from caller c left join lateral (
        select id from ledger_instruction
        where agent_id = c.agent_id and tracked and state = any(%(unsettled)s)
            and delivered_at is not null
        order by delivered_at desc fetch first row with ties
    ) i on true where c.agent_id is not null order by i.id"""


def list_last_delivered(caller: Bearer, *, now: datetime | None = None) -> list[UUID]:
    """Return the ids of the unacknowledged instructions that the agent's last pull delivered."""
    now = now or server_time.now()
    rows = sql.run(LAST_DELIVERED, unsettled=list(UNSETTLED), now=now, **caller.params)
    return [row["id"] for row in require_caller(rows, caller, now)]


def acknowledge_instruction(
    instruction_id: UUID | str, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> None:
    """Acknowledge one instruction; do nothing if it is unknown or already settled."""
    row = Instruction.objects.filter(pk=instruction_id).only("project_id").first()
    if row is not None:
        caller = TrustedCaller(actor, project_id=row.project_id)
        acknowledge([UUID(str(instruction_id))], caller=caller, now=now)


def cancel_statement(which: str) -> str:
    # A delivered plain instruction is over. Each half of the 'or' has its own index.
    open = (
        f"(i.state = '{InstructionState.QUEUED}' "
        f"or i.state = '{InstructionState.DELIVERED}' and i.tracked)"
    )
    cancelled = instruction_to(InstructionState.CANCELLED, where=f"{which} and {open}")
    return f"""with {TrustedCaller.cte}, moved as ({cancelled}),
    journaled as ({
        insert_event("moved", Kind.INSTRUCTION_CANCELLED, data=f"{RETRIES} || %(note)s")
    })
    select m.*, a.name as agent_name from moved m join ledger_agent a on a.id = m.agent_id"""


CANCEL = cancel_statement(f"i.id = any({IDS}) and {OWN}")
CANCEL_ALL = cancel_statement("i.agent_id = c.agent_id")


def cancel(ids: Iterable[UUID], *, project_id: UUID, note: str = "", stamp: Stamp) -> list[Row]:
    """Cancel the unsettled instructions among these; return the rows that changed."""
    caller = TrustedCaller(stamp.actor, project_id=project_id, request_id=stamp.request_id)
    said = Jsonb(noted(note))
    return sql.run(CANCEL, ids=list(ids), note=said, now=stamp.at, **caller.params)


def cancel_all(caller: TrustedCaller, *, now: datetime) -> list[Row]:
    if caller.agent is None:
        raise TypeError("cancel_all needs a caller with an agent")
    return sql.run(CANCEL_ALL, note=Jsonb({}), now=now, **caller.params)


def cancel_one(instruction_id: UUID, *, project_id: UUID, note: str = "", stamp: Stamp) -> Row:
    """Cancel one instruction; raises NotFound, or InvalidTransition with its state."""
    moved = cancel([instruction_id], project_id=project_id, note=note, stamp=stamp)
    if moved:
        return moved[0]
    row = Instruction.objects.filter(pk=instruction_id, project_id=project_id).first()
    if row is None:
        raise NotFound(f"There is no instruction {instruction_id} here.")
    moves = INSTRUCTION_MOVES[InstructionState(row.state)] if row.tracked else ()
    raise InvalidTransition(
        describe_settled(row), current=row.state, allowed=[str(to) for to in moves]
    )


def describe_settled(row: Instruction) -> str:
    plain = " and plain, so nothing is left to cancel" if not row.tracked else ""
    return f"The instruction is {row.state}{plain}."


def is_queue_empty(agent: Agent) -> bool:
    # Only when nothing waits for delivery does the idle check send reminders.
    return not Instruction.objects.filter(agent=agent, state=InstructionState.QUEUED).exists()


def failed_instructions(*, project: Project | None = None) -> dict[str, Instruction]:
    failed = Instruction.objects.filter(state=InstructionState.FAILED).order_by("-id")
    if project is not None:
        failed = failed.filter(project=project)
    return {str(row.id): row for row in failed}
