"""Choose each open escalation's policy, and take the steps that are due; runs on the clock."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from psycopg.types.json import Jsonb

from ledger import journal
from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import Kind, Stamp, clock
from ledger.models import Project
from ledger.tokens import TrustedCaller
from ledger.values.timestamps import format_timestamp
from retries.models import Escalation, EscalationPolicy
from retries.on_call import default_answers
from retries.on_call.directories import read_directory
from retries.on_call.steps import AGAIN, Case, Directory, Step, Turn, matches, parse_step, take_turn
from retries.states import EscalationState

logger = logging.getLogger(__name__)

BATCH_SIZE = 200
MOST_BATCHES = 20  # of one run
CLOCK = clock("on_call")

# The columns come from the locking query: it reads a row as the clock that had it before left it.
# Escalations of projects without policies are not read at all.
COLUMNS = (
    "id, project_id, agent_id, task_id, instruction_id, permission_id, reason, severity, "
    "opened_at, policy_id, policy_step, told, assignee_id, is_routed"
)
DUE = f"""with due as materialized (
    select e.* from (select distinct project_id from retries_escalationpolicy
        where %(of)s::uuid is null or project_id = %(of)s) p
    cross join lateral (
        select {COLUMNS} from retries_escalation
        where project_id = p.project_id and state = '{EscalationState.OPEN}'
            and next_step_at <= %(now)s and (snoozed_until is null or snoozed_until <= %(now)s)
        order by next_step_at limit {BATCH_SIZE} for update skip locked
    ) e limit {BATCH_SIZE}
)
select d.*, a.name as agent, l.ref as plan, t.type, u.username as assignee, last.patterns
from due d join ledger_agent a on a.id = d.agent_id
left join ledger_instruction i on i.id = d.instruction_id
left join retries_permissionrequest q on q.id = d.permission_id
left join ledger_task t on t.id = coalesce(d.task_id, i.task_id, q.task_id)
left join ledger_plan l on l.id = t.plan_id
left join auth_user u on u.id = d.assignee_id
left join lateral (
    select array(select p.id::text from retries_failurepattern p
        where p.id = g.pattern_id or p.merged_into_id = g.pattern_id) as patterns
    from (select id from ledger_failure where task_id = d.task_id order by id desc limit 1) f
    join retries_grouped g on g.failure_id = f.id
) last on d.policy_id is null
order by d.opened_at, d.id"""

# Its version stays: the possible answers have not changed.
TAKE_STEPS = f"""with {TrustedCaller.cte}, given as (
    select * from jsonb_to_recordset(%(turns)s) as g (id uuid, policy uuid, step int,
        next_at timestamptz, due_at timestamptz, told jsonb, assignee int, is_routed boolean,
        kind text, data jsonb)
), taken as (
    update retries_escalation e set policy_id = g.policy, policy_step = g.step,
        next_step_at = g.next_at, answer_due_at = g.due_at, told = g.told,
        assignee_id = g.assignee, is_routed = g.is_routed, updated_at = %(now)s
    from given g where e.id = g.id and e.state = '{EscalationState.OPEN}'
    returning e.id, e.project_id, e.agent_id, g.kind, g.data
), told as (select * from taken where kind is not null), events as ({
    journal.insert_without_states("told", kind="m.kind", subject="escalation", data="m.data")
}) select id from told"""


@dataclass(frozen=True, slots=True)
class Routes:
    """The policies and the people of a project, read once for a batch."""

    policies: Sequence[EscalationPolicy]
    steps: Mapping[UUID, Sequence[Step]]
    directory: Directory

    def find_policy(self, row: Row) -> EscalationPolicy | None:
        if row["policy_id"]:
            return next((each for each in self.policies if each.pk == row["policy_id"]), None)
        return choose_policy(self.policies, describe(row))


def choose_policy(
    policies: Sequence[EscalationPolicy], facts: Mapping[str, Sequence[str]]
) -> EscalationPolicy | None:
    return next((each for each in policies if matches(each.conditions, facts)), None)


def describe(row: Row) -> dict[str, list[str]]:
    ids: list[str] = row["patterns"] or []
    found = {name: row[name] for name in ("reason", "severity", "agent", "plan", "type")}
    facts = {name: [value] for name, value in found.items() if value}
    # a pattern's short id is its last 8 digits
    return facts | {"pattern": [*ids, *(each[-8:] for each in ids)]}


def read_routes(project_id: UUID) -> Routes:
    rows = EscalationPolicy.objects.filter(project=project_id, enabled=True)
    policies = list(rows.order_by("position", "id"))
    steps = {each.pk: [parse_step(line) for line in each.steps] for each in policies}
    return Routes(policies, steps, read_directory(project_id))


def take_due_steps(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Take the steps that are due; return how often people were told, and answers given."""
    told = answered = 0
    for _ in range(MOST_BATCHES):
        taken, count, due = take_batch(now=now, of=project.id if project else None)
        told += count
        answered += sum(answer_one(id, now=now) for id in due)
        if taken < BATCH_SIZE:
            break
    return {"told": told, "answered": answered}


@transaction.atomic
def take_batch(*, now: datetime, of: UUID | None) -> tuple[int, int, list[UUID]]:
    """Take the steps of some escalations; return how many there were, how many told people, and
    those whose default answer is due."""
    # A killed process leaves all of them as they were, and the next run takes them.
    rows = sql.run(DUE, now=now, of=of)
    if not rows:
        return 0, 0, []
    routes = {id: read_routes(id) for id in {row["project_id"] for row in rows}}
    turns, answers = [], []
    for row in rows:
        of_project = routes[row["project_id"]]
        policy = of_project.find_policy(row)
        if policy is None:
            # Another policy begins with its first step.
            case = replace(case_of(row), step=0)
            turns.append(describe_turn(row, None, Turn(case=case, next_at=None)))
            continue
        steps = of_project.steps[policy.pk]
        turn = take_turn(case_of(row), steps, of_project.directory, now=now)
        if turn.answer:
            answers.append(row["id"])
        else:
            turns.append(describe_turn(row, policy, turn))
    ids = find_ids([each["assignee"] for each in turns])
    for each in turns:
        each["assignee"] = ids.get(each["assignee"])
    caller = TrustedCaller(CLOCK)
    told = sql.run(TAKE_STEPS, turns=Jsonb(turns), now=now, **caller.params)
    return len(rows), len(told), answers


def case_of(row: Row) -> Case:
    return Case(
        opened_at=row["opened_at"],
        step=row["policy_step"],
        told=tuple(row["told"]),
        assignee=row["assignee"],
        is_routed=row["is_routed"],
    )


def describe_turn(row: Row, policy: EscalationPolicy | None, turn: Turn) -> dict[str, Any]:
    case = turn.case
    within = timedelta(seconds=policy.answer_within_s) if policy else None
    kind = Kind.ESCALATION_REMINDED if turn.is_reminder else Kind.ESCALATION_TOLD
    return {
        "id": str(row["id"]),
        "policy": str(policy.pk) if policy else None,
        "step": case.step,
        "next_at": format_timestamp(turn.next_at) if turn.next_at else None,
        "due_at": format_timestamp(row["opened_at"] + within) if within else None,
        "told": list(case.told),
        "assignee": case.assignee,
        "is_routed": case.is_routed,
        "kind": kind if turn.tells else None,
        "data": {
            "reason": row["reason"],
            "policy": policy.name if policy else "",
            "step": case.step,
            "people": list(turn.tells),
        },
    }


def find_ids(names: Sequence[str | None]) -> dict[str | None, int]:
    wanted = {name for name in names if name}
    rows = User.objects.filter(username__in=wanted).values_list("username", "pk")
    return dict(rows) if wanted else {}


def answer_one(escalation_id: UUID, *, now: datetime) -> bool:
    # An error goes to the log, so that the other escalations still get their answers.
    try:
        return default_answers.give(escalation_id, stamp=Stamp(CLOCK, now))
    except Exception:
        logger.exception("the default answer of escalation %s could not be given", escalation_id)
        due = Escalation.objects.open().filter(pk=escalation_id, next_step_at__lte=now)
        due.update(next_step_at=now + AGAIN)
        return False
