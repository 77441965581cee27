"""Schemas of what people do by hand: trip a breaker, abort a task, restart a plan."""

from typing import Any

from pydantic import AwareDatetime, Field, StrictInt

from ledger.schemas.budgets import BudgetIn
from ledger.schemas.shared import In
from ledger.tasks.spec import MAX_ATTEMPTS
from retries.breaker_actions import REASON_LENGTH


class TripIn(In, example={"reason": "it deletes its own tests"}):
    reason: str = Field(
        "",
        max_length=REASON_LENGTH,
        description="why, for the people who look at the breaker later",
    )


class KeepOpenIn(In, example={"reason": "its key was revoked"}):
    reason: str = Field("", max_length=REASON_LENGTH, description="why, for the journal")


class AbortIn(In, example={"reason": "no longer needed"}):
    reason: str = Field("", max_length=2000, description="why, for the journal")


class RetryIn(In, example={"payload": {"action": "Add the error and use it"}}):
    payload: Any = Field(
        None,
        description="the task's payload from now on; redacted values can only be left or removed",
    )
    agent: str | None = Field(None, description="the name of the agent or pool that retries it")
    max_attempts: StrictInt | None = Field(
        None, ge=1, le=MAX_ATTEMPTS, description="attempts in a round from now on"
    )
    not_before: AwareDatetime | None = Field(
        None, description="no attempt starts before this time, at most 366 days ahead"
    )
    budget: BudgetIn | None = Field(
        None, description="how much its attempts may use in all, in tokens or in dollars"
    )
    note: str = Field("", max_length=2000, description="why, for the journal")


class RestartIn(In, example={"carry_over": "2026-11-21T12:00:00Z"}):
    carry_over: AwareDatetime | None = Field(
        None, description="tasks that started at or after this time keep their attempts"
    )
