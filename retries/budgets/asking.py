"""Ask a person about a budget that is used up: one of its waiting tasks is escalated, once."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from psycopg.types.json import Jsonb

from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import Invalid
from ledger.journal import Kind, Stamp, clock
from ledger.models import AtLimit, Budget, BudgetPeriod, Project
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries.budgets.amounts import Amount, format_number, format_share, name_unit, parse_amount
from retries.escalations import lifecycle
from retries.escalations.lifecycle import Question
from retries.escalations.task_effects import move_statement, requeue
from retries.models import Escalation, PlanForecast
from retries.states import Answer, EscalationState, OnExpiry, Reason

MOST_ASKED = 200  # budgets of one run; the next run asks about the others
CLOCK = clock("budgets")
NAME_LENGTH = 80

# of an agent the head of its queue, or else the retry that is due first
WAITING = f"""coalesce(
        (select t.id from ledger_task t where t.agent_id = a.id and t.state = '{TaskState.QUEUED}'
            order by t.priority desc, t.id limit 1),
        (select t.id from ledger_task t where t.agent_id = a.id and t.state = '{TaskState.RETRY}'
            order by t.due_at limit 1))"""
FIND = {
    "task": f"""select id from ledger_task t where t.id = %(of)s
        and t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}') for no key update skip locked""",
    "plan": f"""select id from ledger_task t where t.plan_id = %(of)s
            and t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}')
        order by t.id is distinct from %(near)s, t.priority desc, t.id limit 1
        for no key update skip locked""",
    "project": f"""select t.id from ledger_task t join (
            select {WAITING} as id, a.id <> %(agent)s::uuid as is_other
            from ledger_agent a where a.project_id = %(of)s and not a.paused
        ) w using (id)
        order by w.is_other, t.priority desc, t.id limit 1 for no key update of t skip locked""",
}
ESCALATE = move_statement(
    TaskState.ESCALATED,
    Kind.TASK_ESCALATED,
    where=f"t.id = %(id)s and t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}')",
    sets="due_at = null, due_noted_at = null",
)


def ask_about(budget: Budget, *, near: Row | None = None, now: datetime) -> UUID | None:
    """Escalate a task that waits for the budget; return its id, or None if none waits now.

    The caller holds the budget's row. `near` is the attempt that used it up, with its task: a task
    of the same agent is asked about first.
    """
    if budget.asked_at is not None and not was_withdrawn(budget):
        return None
    found = sql.run(
        FIND[budget.scope],
        of=getattr(budget, f"{budget.scope}_id"),
        near=near["id"] if near else None,
        agent=near["agent_id"] if near else None,
    )
    if not found:
        return None
    stamp = Stamp(CLOCK, now)
    moved = sql.run(
        ESCALATE,
        id=found[0]["id"],
        data=Jsonb({"reason": str(Reason.BUDGET_USED), "budget": str(budget.pk)}),
        now=now,
        **TrustedCaller(stamp.actor, request_id="").params,
    )
    if not moved:
        return None
    ends = budget.ends_at(now)
    opened = lifecycle.open_for_task(
        moved[0],
        Reason.BUDGET_USED,
        question=Question(
            text=f"{describe_with_forecast(budget, now=now)} {ADVICE[budget.unit]}",
            choices=[],
            expires_at=ends,
            on_expiry=str(OnExpiry.RETRY) if ends else None,
        ),
        stamp=stamp,
    )
    budget.asked_at, budget.escalation_id = now, opened.pk
    Budget.objects.filter(pk=budget.pk).update(asked_at=now, escalation_id=opened.pk)
    id: UUID = moved[0]["id"]
    return id


ADVICE = {
    "tokens": "Answer 'grant: 500000 tokens', with the tokens that it needs, or raise the limit.",
    "usd": "Answer 'grant: 5 USD', with the dollars that it needs, or raise the limit.",
}


def was_withdrawn(budget: Budget) -> bool:
    # Its task ended without an answer: the question is asked again about another one.
    if budget.escalation_id is None:
        return False
    withdrawn = Escalation.objects.filter(state=EscalationState.WITHDRAWN)
    return withdrawn.filter(pk=budget.escalation_id).exists()


# Without a task that waits, a budget would be found again each time, and after MOST_ASKED of them
# no other one.
WAITS = f"t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}')"
PENDING = f"""select b.id from ledger_budget b
    left join retries_escalation e on e.id = b.escalation_id
where b.reached_at is not null and b.at_limit = '{AtLimit.ASK}'
    and (b.asked_at is null or e.state = '{EscalationState.WITHDRAWN}')
    and b.used >= b.amount + b.granted and (b.period = '{BudgetPeriod.TOTAL}'
        or b.day >= (%(now)s::timestamptz at time zone b.zone)::date)
    and (%(of)s::uuid is null or b.project_id = %(of)s)
    and case when b.task_id is not null then (
            select true from ledger_task t where t.id = b.task_id and {WAITS})
        when b.plan_id is not null then (
            select true from ledger_task t where t.plan_id = b.plan_id and {WAITS} limit 1)
        else true end
order by b.id limit {MOST_ASKED}"""


def ask_pending(*, now: datetime, project: Project | None = None) -> int:
    """Ask about budgets that were used up while none of their tasks waited."""
    found = sql.run(PENDING, now=now, of=project.pk if project else None)
    return sum(ask_one(row["id"], now=now) for row in found)


@transaction.atomic
def ask_one(budget_id: UUID, *, now: datetime) -> bool:
    rows = Budget.objects.filter(pk=budget_id, reached_at__isnull=False, at_limit=AtLimit.ASK)
    budget = rows.select_for_update(no_key=True, skip_locked=True).first()
    if budget is None or not budget.is_used_up(now):
        return False
    return ask_about(budget, now=now) is not None


# ---- the answer


def read_grant(budget: Budget, text: str, *, pointer: str = "/instruction") -> Amount:
    granted = parse_amount(text, pointer=pointer)
    if granted.unit != budget.unit:
        unit = name_unit(budget.unit)
        raise Invalid(pointer, f"The budget is in {unit}: grant an amount in {unit}.")
    return granted


def withdraw_question(budget: Budget, *, stamp: Stamp) -> None:
    """Close the open question about a budget that has room again; its task is queued."""
    if budget.escalation_id is None:
        return
    asked = Escalation.objects.open().filter(pk=budget.escalation_id, project=budget.project_id)
    escalation = asked.select_for_update().first()
    if escalation is None:
        return
    requeue(escalation, Answer.GRANT, stamp=stamp)
    lifecycle.close(
        escalation, EscalationState.WITHDRAWN, stamp=stamp, data={"budget": str(budget.pk)}
    )


# ---- words


def name_scope(budget: Budget) -> str:
    if budget.task:
        title = " ".join((budget.task.title or budget.task.ref or budget.task.type).split())
        return f"task {title}"[:NAME_LENGTH]
    return f"plan {budget.plan.ref}"[:NAME_LENGTH] if budget.plan else "the project"


def describe_figures(budget: Budget, *, now: datetime) -> str:
    used, limit = budget.used_now(now), budget.limit_now(now)
    period = f" per day ({budget.zone})" if budget.period == BudgetPeriod.DAY else ""
    share = format_share(used, limit, budget.unit)
    verb = "is used up" if used >= limit else f"is {describe_percent(used, limit)} used"
    return f"The budget of {name_scope(budget)} {verb}: {share}{period}."


def describe_with_forecast(budget: Budget, *, now: datetime) -> str:
    figures = describe_figures(budget, now=now)
    if budget.plan is None or budget.period != BudgetPeriod.TOTAL:
        return figures
    made = PlanForecast.objects.filter(plan=budget.plan, run=budget.plan.run, is_kept=False)
    for each in made.filter(cost_unit=budget.unit, low_cost__isnull=False)[:1]:
        low, high = (
            format_number(Decimal(str(cost)), budget.unit)
            for cost in (each.low_cost, each.high_cost)
        )
        unit = name_unit(budget.unit)
        return f"{figures} The whole plan is forecast to use {low} to {high} {unit} (80%)."
    return figures


def describe_percent(used: Decimal, limit: Decimal) -> str:
    return f"{int(100 * used / limit)}%"
