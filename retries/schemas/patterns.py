"""Schemas of failure patterns."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import AwareDatetime, Field

from ledger.markers import find_markers_before
from ledger.schemas.markers import MarkerBeforeOut, MarkerOut
from ledger.schemas.shapes import AGENT_ID, ID, Part, Shape, field
from ledger.schemas.shared import STATES, In, ListQuery
from retries.failures import figures
from retries.failures.grouping import NOTE_LENGTH
from retries.insight.prediction_reads import find_pattern_predictions
from retries.insight.predictions import Prediction
from retries.models import FailurePattern, Grouped
from retries.schemas.diagnoses import (
    DiagnosedFailureOut,
    DiagnosisQuery,
    KnownErrorOut,
    PredictionOut,
    SuggestionOut,
    diagnosis_out,
    explain,
)
from retries.states import PatternState


class PatternQuery(ListQuery, DiagnosisQuery):
    state: str = Field("", description=STATES)
    q: str = Field("", max_length=200, description="words in the template")
    assignee: str = Field("", description="the assignee's username")


class PatternOut(Shape):
    id: UUID = field("the pattern's id", source="pk")
    state: PatternState = field("open, ignored, resolved, or regressed", "open")
    template: str = field(
        "the error line; ‹marks› stand for what differs", "Error: Cannot find module ‹text›"
    )
    example: str = field("the first error line that matched", "Error: Cannot find module 'uuid'")
    failures: int = field("number of its failures, with those that were deleted", 40, given=True)
    agents: list[str] = field(
        "the names of the agents with such failures", ["coder", "reviewer"], given=True
    )
    first_seen_at: datetime = field("the first failure", source="first_seen")
    last_seen_at: datetime = field("the last failure, to the minute", source="last_seen")
    ignored_until: datetime | None = field(
        "when a failure opens it again; null for never, or if it is not ignored"
    )
    assignee: str | None = field(
        "the username of the person who takes care of it; null if there is none",
        source=lambda row: row.assignee.get_username() if row.assignee else None,
    )
    note: str = field("the note of the person who changed its state")
    state_at: datetime = field("when its state last changed")
    state_by: str | None = field(
        "who last changed its state; null if no person did",
        source="state_by_name",
        empty_is_null=True,
    )


class StuckOut(Part):
    failed: int = field("failed tasks with an open dead letter", 2, source="dead")
    waiting: int = field("tasks that wait for a retry", 1)
    escalated: int = field("tasks whose question a retry can answer", 3, source="asked")


NEWEST = ("headline", "known_error", "suggestion", "prediction")


class OnePatternOut(PatternOut):
    first_seen_after: MarkerBeforeOut | None = field(
        "the last marker of the day before the first failure, such as a deploy; null without one"
    )
    stuck: StuckOut = field("the tasks that are stuck because of it, by their state")
    merged_templates: list[str] = field(
        "the templates that were merged into this pattern, the first ones, because "
        "they differ in one or two words; empty if none were"
    )
    headline: str | None = field(
        "the newest failure's line that tells the cause", "Error: Cannot find module 'uuid'"
    )
    known_error: KnownErrorOut | None = field("the newest failure's known error")
    suggestion: SuggestionOut | None = field("the newest failure's cause and fix")
    prediction: PredictionOut | None = field(
        "the chance of a task to be done within its attempts whose first one failed like this"
    )


class PatternFailureOut(DiagnosedFailureOut, Shape):
    id: UUID = field("the failure's id", source="pk")
    attempt: UUID = field("the attempt that failed", source="attempt_id")
    task: UUID = field("the task of the attempt", source="task_id")
    agent: str = field("the agent's name", "coder", source="grouped.agent.name")
    agent_id: UUID = field("the agent's id", AGENT_ID, source="grouped.agent_id")


class IgnoreIn(In, example={"note": "the archive is moving"}):
    until: AwareDatetime | None = Field(
        None, description="when a failure opens the pattern again; null for never"
    )
    note: str = Field("", max_length=NOTE_LENGTH, description="why, for other people")


class ResolvePatternIn(In, example={"note": "fixed in 1.0.2"}):
    note: str = Field("", max_length=NOTE_LENGTH, description="what fixed it, for other people")


class RetryPatternOut(Shape):
    replayed: list[UUID] = field(
        "the dead letters that were replayed",
        [ID],
        source=lambda row: [letter.pk for letter in row.replayed],
    )
    made_due: list[UUID] = field("the tasks whose retry is due now")
    answered: list[UUID] = field(
        "the escalations that were answered with a retry",
        source=lambda row: [escalation.pk for escalation in row.answered],
    )


def patterns_out(rows: Sequence[FailurePattern]) -> list[dict[str, Any]]:
    ids = [row.pk for row in rows]
    totals, names = figures.count_failures(ids), figures.list_agent_names(ids)
    return [
        PatternOut.write(
            row,
            failures=totals[row.pk].total if row.pk in totals else 0,
            agents=names.get(row.pk, []),
        )
        for row in rows
    ]


def first_seen_out(pattern: FailurePattern) -> dict[str, Any]:
    first = (pattern.pk, pattern.project_id, pattern.first_seen)
    marker = find_markers_before([first]).get(pattern.pk)
    seconds = int((pattern.first_seen - marker.at).total_seconds()) if marker else 0
    before = {"marker": MarkerOut.write(marker), "seconds": seconds} if marker else None
    return {"first_seen_after": before}


def newest_out(pattern: FailurePattern) -> dict[str, Any]:
    row = pattern.grouped.select_related("failure").order_by("-at", "-pk").first()
    prediction = find_pattern_predictions([pattern.pk]).get(pattern.pk)
    found = diagnosis_out(row.failure if row else None, prediction)
    return {name: found[name] for name in NEWEST}


def grouped_out(row: Grouped, prediction: Prediction | None) -> dict[str, Any]:
    return PatternFailureOut.write(row.failure, **explain(row.failure, prediction))
