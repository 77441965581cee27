"""Budgets and reports that use them up."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Budget
from ledger.tokens import TrustedCaller
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.budgets import editing
from retries.budgets.editing import BudgetSpec, Scope
from tests.factories import NOW
from tests.retries.moves import attempt_of, claim

SONNET = {"model": "claude-sonnet-4-5", "input_tokens": 900, "output_tokens": 100}


def set_budget(
    agent: Agent,
    amount: float = 1000,
    *,
    unit: str = "tokens",
    plan: UUID | None = None,
    task: UUID | None = None,
    now: datetime = NOW,
    **more: Any,
) -> Budget:
    spec = BudgetSpec(unit=unit, amount=Decimal(str(amount)), **more)
    return editing.set_budget(Scope(agent.project_id, plan, task), spec, stamp=Stamp(SYSTEM, now))


def report(
    agent: Agent, attempt: UUID, *, tokens: int = 1000, now: datetime = NOW, **more: Any
) -> dict[str, Any]:
    usage = more.pop("usage", {"input_tokens": tokens, "output_tokens": 0})
    said = Report(**{"status": "success", "usage": usage} | more)
    caller = TrustedCaller(SYSTEM, agent=agent)
    return finishing.finish_attempt(attempt, said, caller=caller, now=now).decision


def spend(
    agent: Agent, *, task: UUID | None = None, tokens: int = 1000, now: datetime = NOW, **more: Any
) -> dict[str, Any]:
    """Claim a task, and report that it took so many tokens."""
    attempt = attempt_of(claim(agent, task=task, now=now))
    return report(agent, attempt, tokens=tokens, now=now, **more)


def current(budget: Budget) -> Budget:
    return Budget.objects.get(pk=budget.pk)
