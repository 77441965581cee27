"""Schemas of failure patterns."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field

from ledger.schemas.shapes import AGENT_ID, AT, ID
from ledger.schemas.shared import STATES, In, Listed, ListQuery
from retries.failures import figures
from retries.failures.grouping import NOTE_LENGTH
from retries.failures.patterns import RetryResult
from retries.failures.stuck_tasks import StuckTasks
from retries.insight.prediction_reads import find_pattern_predictions
from retries.insight.predictions import Prediction
from retries.models import FailurePattern, Grouped
from retries.schemas.diagnoses import (
    DIAGNOSIS,
    FAILED_ATTEMPT,
    DiagnosedFailureOut,
    DiagnosisQuery,
    KnownErrorOut,
    SuggestionOut,
    diagnosed_failure_out,
    diagnosis_out,
)
from retries.schemas.predictions import PredictionOut
from retries.states import PatternState

PATTERN: dict[str, Any] = {
    "id": ID,
    "state": "open",
    "template": "Error: Cannot find module ‹text›",
    "example": "Error: Cannot find module 'uuid'",
    "failures": 40,
    "agents": ["coder", "reviewer"],
    "first_seen_at": AT,
    "last_seen_at": AT,
    "ignored_until": None,
    "note": "",
    "state_at": AT,
    "state_by": None,
}
STUCK = {"failed": 2, "waiting": 1, "escalated": 3}


class PatternQuery(ListQuery, DiagnosisQuery):
    state: str = Field("", description=STATES)
    q: str = Field("", max_length=200, description="words in the template")


class PatternOut(Schema):
    id: UUID = Field(description="the pattern's id")
    state: PatternState = Field(description="open, ignored, resolved, or regressed")
    template: str = Field(description="the error line; ‹marks› stand for what differs")
    example: str = Field(description="the first error line that matched")
    failures: int = Field(description="number of its failures, with those that were deleted")
    agents: list[str] = Field(description="the names of the agents with such failures")
    first_seen_at: datetime = Field(description="the first failure")
    last_seen_at: datetime = Field(description="the last failure, to the minute")
    ignored_until: datetime | None = Field(
        description="when a failure opens it again; null for never, or if it is not ignored"
    )
    note: str = Field(description="the note of the person who changed its state")
    state_at: datetime = Field(description="when its state last changed")
    state_by: str | None = Field(description="who last changed its state; null if no person did")

    model_config = ConfigDict(json_schema_extra={"example": PATTERN})


class PatternList(Listed):
    data: list[PatternOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [PATTERN], "next_cursor": None, "has_more": False}}
    )


class StuckOut(Schema):
    failed: int = Field(description="failed tasks with an open dead letter")
    waiting: int = Field(description="tasks that wait for a retry")
    escalated: int = Field(description="tasks whose question a retry can answer")


NEWEST = {name: DIAGNOSIS[name] for name in ("headline", "known_error", "suggestion", "prediction")}


class OnePatternOut(PatternOut):
    stuck: StuckOut = Field(description="the tasks that are stuck because of it, by their state")
    merged_templates: list[str] = Field(
        description="the templates that were merged into this pattern, the first ones, because "
        "they differ in one or two words; empty if none were"
    )
    headline: str | None = Field(description="the newest failure's line that tells the cause")
    known_error: KnownErrorOut | None = Field(description="the newest failure's known error")
    suggestion: SuggestionOut | None = Field(description="the newest failure's cause and fix")
    prediction: PredictionOut | None = Field(
        description="the chance of a task to be done within its attempts whose first one failed "
        "like this"
    )

    model_config = ConfigDict(
        json_schema_extra={"example": PATTERN | {"stuck": STUCK, "merged_templates": []} | NEWEST}
    )


GROUPED = {
    "id": ID,
    "attempt": ID,
    "task": ID,
    "agent": "coder",
    "agent_id": AGENT_ID,
    **FAILED_ATTEMPT["failure"],
}


class PatternFailureOut(DiagnosedFailureOut):
    id: UUID = Field(description="the failure's id")
    attempt: UUID = Field(description="the attempt that failed")
    task: UUID = Field(description="the task of the attempt")
    agent: str = Field(description="the agent's name")
    agent_id: UUID = Field(description="the agent's id")

    model_config = ConfigDict(json_schema_extra={"example": GROUPED})


class PatternFailureList(Listed):
    data: list[PatternFailureOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [GROUPED], "next_cursor": None, "has_more": False}}
    )


class IgnoreIn(In):
    until: AwareDatetime | None = Field(
        None, description="when a failure opens the pattern again; null for never"
    )
    note: str = Field("", max_length=NOTE_LENGTH, description="why, for other people")

    model_config = ConfigDict(json_schema_extra={"example": {"note": "the archive is moving"}})


class ResolvePatternIn(In):
    note: str = Field("", max_length=NOTE_LENGTH, description="what fixed it, for other people")

    model_config = ConfigDict(json_schema_extra={"example": {"note": "fixed in 1.0.2"}})


class RetryPatternOut(Schema):
    replayed: list[UUID] = Field(description="the dead letters that were replayed")
    made_due: list[UUID] = Field(description="the tasks whose retry is due now")
    answered: list[UUID] = Field(description="the escalations that were answered with a retry")

    model_config = ConfigDict(
        json_schema_extra={"example": {"replayed": [ID], "made_due": [], "answered": []}}
    )


def patterns_out(rows: Sequence[FailurePattern]) -> list[dict[str, Any]]:
    """Return the JSON objects for patterns, with the figures of their failures."""
    ids = [row.pk for row in rows]
    totals, names = figures.count_failures(ids), figures.list_agent_names(ids)
    return [
        {
            "id": row.pk,
            "state": row.state,
            "template": row.template,
            "example": row.example,
            "failures": totals[row.pk].total if row.pk in totals else 0,
            "agents": names.get(row.pk, []),
            "first_seen_at": row.first_seen,
            "last_seen_at": row.last_seen,
            "ignored_until": row.ignored_until,
            "note": row.note,
            "state_at": row.state_at,
            "state_by": row.state_by_name or None,
        }
        for row in rows
    ]


def newest_out(pattern: FailurePattern) -> dict[str, Any]:
    """Return what the newest failure of a pattern tells."""
    row = pattern.grouped.select_related("failure").order_by("-at", "-pk").first()
    prediction = find_pattern_predictions([pattern.pk]).get(pattern.pk)
    found = diagnosis_out(row.failure if row else None, prediction)
    return {name: found[name] for name in NEWEST}


def stuck_out(stuck: StuckTasks) -> dict[str, int]:
    return {"failed": stuck.dead, "waiting": stuck.waiting, "escalated": stuck.asked}


def grouped_out(row: Grouped, prediction: Prediction | None) -> dict[str, Any]:
    """Return the JSON object for a pattern's failure, whose agent is loaded."""
    failure = row.failure
    return {
        "id": failure.pk,
        "attempt": failure.attempt_id,
        "task": failure.task_id,
        "agent": row.agent.name,
        "agent_id": row.agent_id,
        **diagnosed_failure_out(failure, prediction),
    }


def retry_out(result: RetryResult) -> dict[str, Any]:
    return {
        "replayed": [letter.pk for letter in result.replayed],
        "made_due": result.made_due,
        "answered": [escalation.pk for escalation in result.answered],
    }
