"""Count events from the journal, for metrics that many processes must agree on.

Each event is counted once, in the transaction that moves the reader's cursor. Totals begin with the
oldest event that is there, and stay when events are deleted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from ledger.database import sql
from ledger.instruction_records.stats import ACK_SECONDS, HEARD_LEVEL
from ledger.journal import Cursor, Kind, since_subject
from ledger.models import Project
from ledger.moves import FINAL_STATES
from ledger.states import LEVELS, SETTLED, InstructionState
from retries.insight.times import (
    IS_ACKNOWLEDGED_IN_TIME,
    IS_SETTLED,
    OF_ATTEMPT,
    RUN_SECONDS,
    WAIT_SECONDS,
)
from retries.journal_readers.positions import IN_BATCH, ensure_cursor, read_batches

MOST_BATCHES = 20

# An event that ends an attempt, with the attempt and its failure.
ATTEMPT = """join ledger_attempt a on a.task_id = e.subject_id
        and a.number = (e.data ->> 'attempt')::int
    left join ledger_failure f on f.attempt_id = a.id"""
ENDED = "e.subject_type = 'task' and e.from_state = 'running' and a.outcome is not null"
ESCALATION = "join retries_escalation x on x.id = e.subject_id"
CLOSED = f"""e.kind in ('{Kind.ESCALATION_RESOLVED}', '{Kind.ESCALATION_EXPIRED}',
    '{Kind.ESCALATION_WITHDRAWN}') and x.closed_at is not null"""
# The last thing that happened to a task before it was claimed: it became claimable.
BEFORE = f"""join lateral (
        select b.at from ledger_event b where b.subject_id = e.subject_id and b.id < e.id
            and b.id >= {since_subject("e.subject_id")}
        order by b.id desc limit 1
    ) b on true"""

# the cases that a target `g` counts, as Insight does: the event settles an instruction, is a task's
# first claim, or ends an attempt
TARGET_CASES = f"""cross join lateral (
        select g.agent_id as agent, '' as type, null as plan, 'ack' as measure, g.percent,
            {IS_ACKNOWLEDGED_IN_TIME} as is_met
        from retries_acktarget g join ledger_instruction i
            on i.id = e.subject_id and i.tracked and {IS_SETTLED}
        where g.agent_id = e.agent_id and e.subject_type = 'instruction'
            and e.to_state = i.state
        union all
        select g.agent_id, g.type, case when g.plan_id is not null then p.ref end, g.measure,
            g.percent,
            case g.measure when 'wait' then {WAIT_SECONDS} else {RUN_SECONDS} end <= g.within_s
        from ledger_attempt a {OF_ATTEMPT}
            join retries_tasktarget g on (g.project_id = e.project_id or g.project_id is null)
                and (g.agent_id = a.agent_id or g.type = t.type or g.plan_id = t.plan_id)
        where a.task_id = e.subject_id and a.number = (e.data ->> 'attempt')::int
            and e.subject_type = 'task' and case g.measure
            when 'wait' then e.kind = '{Kind.TASK_CLAIMED}' and a.number = 1
            else e.from_state = 'running' and a.outcome is not null end
    ) c"""


@dataclass(frozen=True)
class Total:
    """A metric: its labels as SQL over the event `e`, and for a histogram what it measures."""

    metric: str
    help: str
    labels: Mapping[str, str]
    where: str
    join: str = ""
    value: str = ""
    edges: tuple[float, ...] = field(default=())

    def statement(self) -> str:
        labels = ", ".join(f"'{name}', {value}" for name, value in self.labels.items())
        edges = ", ".join(map(str, self.edges))
        bucket = (
            f"""coalesce((select min(edge) from unnest(array[{edges}]::float8[]) edge
                where edge >= ({self.value})), 'Infinity')"""
            if self.edges
            else "0"
        )
        amount = f"sum({self.value})" if self.edges else "0"
        return f"""insert into retries_metrictotal as m
                (project_id, metric, labels, bucket, count, sum)
            select e.project_id, '{self.metric}', jsonb_build_object({labels}), {bucket},
                count(*), {amount}
            from ledger_event e {self.join}
            where {IN_BATCH} and {self.where}
            group by 1, 3, 4 order by 1, 3, 4
            on conflict (project_id, metric, labels, bucket) do update
            set count = m.count + excluded.count, sum = m.sum + excluded.sum"""


AGENT = "e.agent_id"
TOTALS = (
    Total(
        "tenfour_task_transitions",
        "Moves of tasks between states; a new task comes from none.",
        {"from": "coalesce(e.from_state, 'none')", "to": "e.to_state"},
        "e.subject_type = 'task' and e.to_state is not null",
    ),
    Total(
        "tenfour_attempts",
        "Ended attempts by outcome.",
        {"agent": AGENT, "outcome": "a.outcome", "failure_type": "coalesce(f.type, '')"},
        ENDED,
        ATTEMPT,
    ),
    Total(
        "tenfour_attempt_duration_seconds",
        "Seconds from an attempt's claim to its end.",
        {"agent": AGENT, "outcome": "a.outcome"},
        ENDED,
        ATTEMPT,
        "extract(epoch from a.ended_at - a.started_at)",
        (1, 5, 15, 60, 300, 900, 1800, 3600, 7200),
    ),
    Total(
        "tenfour_decisions",
        "Decisions about reports, with their reason.",
        {"decision": "a.decision ->> 'decision'", "reason": "a.decision ->> 'reason'"},
        f"{ENDED} and a.decision is not null",
        ATTEMPT,
    ),
    Total(
        "tenfour_leases_expired",
        "Attempts that ended because their lease expired.",
        {"agent": AGENT},
        f"{ENDED} and f.code = 'lease_expired'",
        ATTEMPT,
    ),
    Total(
        "tenfour_task_attempts",
        "Attempts until a task ended.",
        {"outcome": "e.to_state"},
        f"e.subject_type = 'task' and e.to_state in ({FINAL_STATES})",
        "join ledger_task t on t.id = e.subject_id",
        "t.attempts",
        (1, 2, 3, 4, 5, 8),
    ),
    Total(
        "tenfour_claim_wait_seconds",
        "Seconds from when a task could be claimed to its claim.",
        {"agent": AGENT},
        f"e.kind = '{Kind.TASK_CLAIMED}'",
        BEFORE,
        "greatest(0, extract(epoch from e.at - b.at))",
        (0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200),
    ),
    Total(
        "tenfour_escalations",
        "Closed escalations by reason and answer; an unanswered one has its state instead.",
        {"reason": "x.reason", "action": "coalesce(x.action, x.state)"},
        CLOSED,
        ESCALATION,
    ),
    Total(
        "tenfour_escalation_resolution_seconds",
        "Seconds from an escalation's opening to its answer.",
        {"action": "x.action"},
        f"{CLOSED} and x.action is not null",
        ESCALATION,
        "extract(epoch from x.closed_at - x.opened_at)",
        (60, 300, 900, 1800, 3600, 14400, 43200, 86400, 259200),
    ),
    Total(
        "tenfour_breaker_transitions",
        "Moves of agents' breakers.",
        {"agent": AGENT, "to": "replace(e.kind, 'agent.breaker_', '')"},
        "e.kind like 'agent.breaker_%%' and e.from_state <> e.to_state",
    ),
    Total(
        "tenfour_target_burn",
        "Cases of targets: 0 if in time, else 1 / (1 - target). The mean is the burn rate.",
        {"agent": "c.agent", "type": "c.type", "plan": "c.plan", "measure": "c.measure"},
        "c.is_met is not null",
        TARGET_CASES,
        "case when c.is_met then 0 else 100.0 / (100 - c.percent) end",
        (0,),
    ),
)

INSTRUCTION = "join ledger_instruction i on i.id = e.subject_id and i.tracked"
SETTLES = f"e.subject_type = 'instruction' and e.to_state in ({sql.quoted(SETTLED)})"
URGENCY = f"(array[{sql.quoted(LEVELS)}])[{HEARD_LEVEL} + 1]"
INSTRUCTION_TOTALS = (
    Total(
        "tenfour_instructions",
        "Settled tracked instructions by outcome.",
        {"agent": AGENT, "outcome": "e.to_state", "urgency": URGENCY},
        SETTLES,
        INSTRUCTION,
    ),
    Total(
        "tenfour_instruction_retries",
        "Times that a tracked instruction was requeued.",
        {"agent": AGENT},
        f"e.kind = '{Kind.INSTRUCTION_REQUEUED}'",
        INSTRUCTION,
    ),
    Total(
        "tenfour_instruction_ack_seconds",
        "Seconds from sending to acknowledgment.",
        {"agent": AGENT, "outcome": "e.to_state", "urgency": URGENCY},
        f"{SETTLES} and e.to_state = '{InstructionState.ACKNOWLEDGED}'",
        INSTRUCTION,
        ACK_SECONDS,
        (1, 2, 4, 8, 15, 30, 60, 120, 240, 600, 3600),
    ),
    Total(
        "tenfour_instruction_deliveries",
        "Deliveries before an instruction was settled.",
        {"agent": AGENT, "outcome": "e.to_state", "urgency": URGENCY},
        SETTLES,
        INSTRUCTION,
        "i.deliveries",
        (1, 2, 3, 4, 6, 11, 21),
    ),
)
# The instructions came later: with a cursor of their own, they are counted from the beginning too.
READERS: Mapping[str, Sequence[Total]] = {
    "metrics": TOTALS,
    "instruction_metrics": INSTRUCTION_TOTALS,
}


def count_events(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    batches = 0
    for name, totals in READERS.items():
        ensure_cursor(name, start=Cursor(), now=now)
        count = partial(count_batch, totals)
        batches += read_batches(name, count, most=MOST_BATCHES, now=now)
    return {"batches": batches}


def count_batch(totals: Sequence[Total], between: dict[str, str]) -> None:
    for total in totals:
        sql.run(total.statement(), **between)
