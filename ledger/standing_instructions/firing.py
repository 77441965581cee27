"""Send the instructions of rules, in the transaction of what triggers them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger import journal, moves
from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import Kind
from ledger.models.standing_instruction import OncePer, Trigger
from ledger.secrets.redaction import redacted, titled
from ledger.standing_instructions.matching import PATH, comparable, normalize_path
from ledger.states import InstructionState
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller
from ledger.values.text import truncate

CALLERS: tuple[type[Caller], ...] = (Bearer, TrustedCaller)
SESSION_LENGTH = 128
# the parts of a signal that its instruction keeps, so that people see why it was sent
SHOWN = (PATH, "tool", "command", "line")
SHOWN_LENGTH = 200

# A rule's agent, or any agent of its project.


def is_for(agent: str) -> str:
    """Return the condition that the rule `r` is for all agents, for this one, or for its pool."""
    return f"""(r.agent_id is null or r.agent_id = {agent} or exists (
                select from ledger_poolmember s
                where s.agent_id = {agent} and s.pool_id = r.agent_id))"""


IN_SCOPE = f"r.project_id = c.project_id and {is_for('c.agent_id')}"
EXACT = "%(data)s::jsonb @> r.match_exact"
PATH_FITS = "(r.path_pattern is null or %(path)s::text ~ r.path_pattern)"
# What a rule expects does not trigger it: a changelog entry does not ask for another one.
NOT_ITS_ANSWER = (
    "(r.expect_type is distinct from %(type)s or not %(data)s::jsonb @> r.expect_match)"
)


def has_rule_for_signal(caller: str = "caller") -> str:
    """Return the SQL of whether a rule waits for this type of signal; null if none does."""
    return f"""(select true from ledger_standinginstruction r, {caller} c
            where {IN_SCOPE} and r.signal_type = %(type)s and not r.paused limit 1)"""


def has_rule_for_claim(*, project: str, agent: str, pooled: bool) -> str:
    """Return the SQL of whether a rule waits for claims of this agent; null if none does.

    Without `pooled`, the agent is in no pool.
    """
    mine = is_for(agent) if pooled else f"(r.agent_id is null or r.agent_id = {agent})"
    return f"""(select true from ledger_standinginstruction r
            where r.project_id = {project} and {mine}
                and r.event = '{Trigger.TASK_CLAIMED}' and not r.paused limit 1)"""


def once_key(*, session: str, attempt: str) -> str:
    """Return the SQL of the key under which a rule sends once; null where it may send again.

    Without an attempt the session counts; without a session the rule may send at each trigger.
    """
    by_session = f"'session:' || nullif({session}, '')"
    return f"""case r.once_per
            when '{OncePer.DAY}' then 'day:' || to_char(%(now)s at time zone 'utc', 'YYYY-MM-DD')
            when '{OncePer.SESSION}' then {by_session}
            when '{OncePer.ATTEMPT}' then coalesce('attempt:' || {attempt}::text, {by_session})
        end"""


def fire_statement(caller: type[Caller], triggered: str) -> str:
    """Return the statement that sends the rules `r` of `triggered`, each to its `to_agent`.

    `triggered` is a query for `r.*`, `to_agent`, `about`, `trigger` and `once`. An instruction with
    the same content that is still unsettled, or one with the same key, keeps a rule from sending.
    """
    sent_event = journal.insert(
        "sent",
        kind=f"'{Kind.INSTRUCTION_QUEUED}'",
        subject="instruction",
        data="jsonb_build_object('rule', m.rule_id, 'trigger', m.trigger)",
    )
    return f"""with {caller.cte}, triggered as materialized ({triggered}
    ), sent as (
        insert into ledger_instruction as i (project_id, agent_id, content, content_sha256, tracked,
            state, max_retries, expect_type, expect_match, on_failed, task_id, position, rule_id,
            trigger, once_key, holds, sent_by_type, sent_by_id, sent_by_name, queued_at, updated_at)
        select r.project_id, r.to_agent, r.content, sha256(convert_to(r.content, 'UTF8')), true,
            '{InstructionState.QUEUED}', r.max_retries, r.expect_type, r.expect_match, r.on_failed,
            r.about, nextval('ledger_instruction_position'), r.id, r.trigger, r.once,
            case when r.hold_stop then 0 end, 'rule', r.id::text, left(r.content, 64),
            %(now)s, %(now)s
        from triggered r order by r.id, r.to_agent
        -- waits for a racing ack or sender, and inserts only if neither leaves one behind
        on conflict do nothing
        returning {moves.instruction_columns("i")}, i.trigger, null as from_state
    ), journaled as ({sent_event})
    select m.id, m.rule_id from sent m order by m.id"""


def signal_rules() -> str:
    """Return the query for the rules that a signal triggers.

    The attempt is the one that the signal names or, without a name, the agent's only live one.
    """
    # In id order, so that PostgreSQL uses the index of the agent's own live attempts.
    live = """select a.id, a.task_id from ledger_attempt a
            where a.agent_id = c.agent_id and a.outcome is null
                and (%(attempt)s::uuid is null or a.id = %(attempt)s) order by a.id limit 2"""
    once = once_key(session="%(session)s::text", attempt="a.id")
    return f"""
        select r.*, c.agent_id as to_agent, a.task_id as about, %(trigger)s::jsonb as trigger,
            {once} as once
        from ledger_standinginstruction r cross join caller c
        left join lateral (select (array_agg(l.id))[1] as id, (array_agg(l.task_id))[1] as task_id
            from ({live}) l having count(*) = 1) a on true
        where {IN_SCOPE} and r.signal_type = %(type)s and not r.paused
            and {EXACT} and {PATH_FITS} and {NOT_ITS_ANSWER}"""


def claim_rules() -> str:
    trigger = f"""jsonb_build_object('event', '{Trigger.TASK_CLAIMED}', 'task', t.id,
            'ref', t.ref, 'title', left(t.title, {SHOWN_LENGTH}), 'attempt', a.number)"""
    once = once_key(session="a.worker_id", attempt="a.id")
    return f"""
        select distinct on (r.id, t.id) r.*, c.agent_id as to_agent, t.id as about,
            {trigger} as trigger, {once} as once
        from ledger_attempt a join ledger_task t on t.id = a.task_id, caller c,
            ledger_standinginstruction r
        where a.id = any(%(attempts)s::uuid[]) and {IN_SCOPE}
            and r.event = '{Trigger.TASK_CLAIMED}' and not r.paused
            and (r.task_type is null or r.task_type = t.type)
            and (r.plan_id is null or r.plan_id = t.plan_id)"""


# The interval is cut into slots since the epoch. A slot begins once for all beats, and an
# instruction that was still open in it, or that was settled in it, is enough for that slot.
SLOT = "floor(extract(epoch from %(now)s::timestamptz) / r.interval_s)"
SLOT_BEGAN = f"to_timestamp({SLOT} * r.interval_s)"
EVERY_PER_RUN = 5000


def clock_rules() -> str:
    return f"""
        select r.*, a.id as to_agent, null::uuid as about,
            jsonb_build_object('event', '{Trigger.EVERY}', 'interval_s', r.interval_s) as trigger,
            'slot:' || {SLOT}::bigint as once
        from ledger_standinginstruction r join ledger_agent a on a.project_id = r.project_id
            and {is_for("a.id")}
        where r.event = '{Trigger.EVERY}' and not r.paused
            and (%(only)s::uuid is null or r.project_id = %(only)s)
            and a.last_seen_at > %(alive_since)s and {SLOT_BEGAN} > r.activated_at
            and coalesce((select i.updated_at < {SLOT_BEGAN} from ledger_instruction i
                where i.rule_id = r.id and i.agent_id = a.id order by i.id desc limit 1), true)
        order by r.id, a.id limit {EVERY_PER_RUN}"""


FIRE_SIGNAL: Statements = {each: fire_statement(each, signal_rules()) for each in CALLERS}
FIRE_CLAIM: Statements = {each: fire_statement(each, claim_rules()) for each in CALLERS}
FIRE_CLOCK = fire_statement(TrustedCaller, clock_rules())


def fire_signal(
    type: str,
    data: dict[str, Any],
    *,
    caller: Caller,
    session: str,
    attempt: UUID | None,
    now: datetime,
) -> list[UUID]:
    """Send what a signal of the caller triggers, and return the ids of the new instructions."""
    rows = sql.run(
        FIRE_SIGNAL[caller.__class__],
        type=type,
        data=Jsonb(comparable(data)),
        path=normalize_path(data.get(PATH), folder=data.get("cwd")),
        trigger=Jsonb({"event": Trigger.SIGNAL.value, "type": type} | shown_parts(data)),
        session=session,
        attempt=attempt,
        now=now,
        **caller.params,
    )
    return [row["id"] for row in rows]


def shown_parts(data: dict[str, Any]) -> dict[str, str]:
    found = {name: data[name] for name in SHOWN if isinstance(data.get(name), str)}
    return {name: truncate(titled(redacted(text)), SHOWN_LENGTH) for name, text in found.items()}


def fire_claims(attempts: Iterable[UUID], *, caller: Caller, now: datetime) -> list[UUID]:
    rows = sql.run(FIRE_CLAIM[type(caller)], attempts=list(attempts), now=now, **caller.params)
    return [row["id"] for row in rows]


def fire_clock(
    *, alive_since: datetime, now: datetime, project_id: UUID | None, caller: TrustedCaller
) -> list[Row]:
    return sql.run(FIRE_CLOCK, alive_since=alive_since, only=project_id, now=now, **caller.params)
