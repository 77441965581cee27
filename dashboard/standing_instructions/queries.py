"""Read rules with their records for the pages of standing instructions."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.urls import reverse

from dashboard.lists.shared_queries import hash_of, of_project
from dashboard.sentences.instructions import describe_cause
from dashboard.standing_instructions.records import Record
from dashboard.standing_instructions.wording import describe_expect, describe_when
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.instruction_records.stats import window_params
from ledger.models import Event, Instruction, Project, StandingInstruction
from ledger.models.standing_instruction import RuleState
from ledger.states import InstructionState
from retries.tasks.holds import MOST_HOLDS

WINDOW = timedelta(days=7)
LISTED = 500
FIRINGS_SHOWN = 20
CHANGES_SHOWN = 20
AGENTS_SHOWN = 20
SAMPLES = 5

# a rule's instructions, newest first: one step into an index for each rule
NEWEST = Instruction.objects.filter(rule=OuterRef("pk")).order_by("-id")
ACKED = f"i.state = '{InstructionState.ACKNOWLEDGED}'"
COUNTS = f"""count(*) as fired,
    count(*) filter (where {ACKED} and i.retry_count = 0) as n0,
    count(*) filter (where {ACKED} and i.retry_count = 1) as n1,
    count(*) filter (where {ACKED} and i.retry_count = 2) as n2,
    count(*) filter (where {ACKED} and i.retry_count >= 3) as n3,
    count(*) filter (where i.state = '{InstructionState.FAILED}') as ignored,
    coalesce(sum(i.holds), 0) as held,
    count(*) filter (where i.state = '{InstructionState.FAILED}' and i.holds >= {MOST_HOLDS})
        as let_go"""
IN_WINDOW = """from ledger_instruction i where i.rule_id = any(%(rules)s::uuid[])
    and i.id >= %(floor)s and i.queued_at >= %(since)s"""
BY_RULE = f"select i.rule_id as key, {COUNTS} {IN_WINDOW} group by 1"
BY_AGENT = f"""select a.name as key, {COUNTS} {
    IN_WINDOW.replace("where", "join ledger_agent a on a.id = i.agent_id where", 1)
} group by 1 order by ignored desc, fired desc, a.name limit {AGENTS_SHOWN}"""
BY_DAY = (
    f"""select (i.queued_at at time zone 'utc')::date as key, {COUNTS} {IN_WINDOW} group by 1"""
)


@dataclass(frozen=True, slots=True)
class ListedRule:
    """A rule with its record of the window."""

    row: StandingInstruction
    record: Record
    last_fired_at: datetime | None

    @property
    def pk(self) -> UUID:
        return self.row.pk

    @property
    def toggle_url(self) -> str:
        verb = "pause" if self.row.state == RuleState.ACTIVE else "resume"
        return reverse("dashboard:rule_act", args=[self.row.pk, verb])

    @property
    def when(self) -> str:
        return describe_when(self.row)

    @property
    def expects(self) -> str:
        return describe_expect(self.row)


@dataclass(frozen=True, slots=True)
class AgentRecord:
    name: str
    record: Record


@dataclass(frozen=True, slots=True)
class Firing:
    """An instruction that a rule sent, with what triggered it."""

    row: Instruction

    @property
    def because(self) -> str:
        return describe_cause(self.row.trigger or {})

    @property
    def took(self) -> timedelta | None:
        at = self.row.acknowledged_at
        return at - self.row.queued_at if at else None


def record_of(row: sql.Row) -> Record:
    return Record(
        fired=row["fired"],
        followed=(row["n0"], row["n1"], row["n2"], row["n3"]),
        ignored=row["ignored"],
        held=int(row["held"]),
        let_go=row["let_go"],
    )


def fetch_records(
    statement: str, rules: list[UUID], *, now: datetime, window: timedelta
) -> dict[Any, Record]:
    """Return the records that a statement groups, by its key."""
    # They may be as old as other cached figures.
    rows = get_or_compute_slow(
        f"rule-records:{hash_of((statement, rules, window))}",
        lambda: sql.run_custom_plan(statement, rules=rules, **window_params(now - window)),
    )
    return {row["key"]: record_of(row) for row in rows}


def list_rules(project: Project | None, *, now: datetime) -> list[ListedRule]:
    found = StandingInstruction.objects.current().select_related("agent", "plan", "project")
    found = found.annotate(last_fired_at=Subquery(NEWEST.values("queued_at")[:1]))
    rows: list[Any] = list(of_project(found, project).order_by("-id")[:LISTED])
    ids = [row.id for row in rows]
    records = fetch_records(BY_RULE, ids, now=now, window=WINDOW)
    return [ListedRule(row, records.get(row.id, Record()), row.last_fired_at) for row in rows]


def find_rule(id: UUID) -> StandingInstruction | None:
    rows = StandingInstruction.objects.select_related("agent", "plan", "project")
    return rows.filter(pk=id).first()


def count_open(row: StandingInstruction) -> int:
    # rules send tracked instructions only; without the condition, all that it sent would be read
    return Instruction.objects.filter(rule=row).awaiting_ack().count()


def count_days(row: StandingInstruction, *, now: datetime, days: int) -> list[tuple[str, Record]]:
    # Days without instructions have an empty record.
    found = fetch_records(BY_DAY, [row.id], now=now, window=timedelta(days=days))
    dates = [(now - timedelta(days=back)).date() for back in reversed(range(days))]
    return [(f"{date:%b} {date.day}", found.get(date, Record())) for date in dates]


def list_agents(row: StandingInstruction, *, now: datetime, days: int) -> list[AgentRecord]:
    """Return the records of the agents that got its instructions, most ignored first."""
    found = fetch_records(BY_AGENT, [row.id], now=now, window=timedelta(days=days))
    return [AgentRecord(name, record) for name, record in found.items()]


def list_firings(row: StandingInstruction) -> list[Firing]:
    found = Instruction.objects.filter(rule=row).select_related("agent").order_by("-id")
    return [Firing(each) for each in found[:FIRINGS_SHOWN]]


def list_changes(row: StandingInstruction) -> list[Event]:
    found = Event.objects.about(row.id).filter(subject_type="rule").order_by("-id")
    return list(found[:CHANGES_SHOWN])


def list_samples(project: Project | None) -> list[dict[str, Any]]:
    """Return the last triggers of the newest rules that signals trigger, for a trial."""
    rows = of_project(StandingInstruction.objects.filter(signal_type__isnull=False), project)
    last = rows.annotate(last=Subquery(NEWEST.values("trigger")[:1])).order_by("-id")
    found = [each for each in last.values_list("last", flat=True)[:LISTED] if each]
    return [{"type": each.get("type", ""), "data": parts_of(each)} for each in found[:SAMPLES]]


def parts_of(trigger: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in trigger.items() if name not in ("event", "type")}
