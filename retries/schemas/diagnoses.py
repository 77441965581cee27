"""Schemas of what Tenfour reads from a failure, and of the attempts and failures that have it."""

from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.models import Attempt, Failure
from ledger.schemas.attempts import ATTEMPT, AttemptOut, FailureOut, attempt_out, failure_out
from ledger.schemas.shapes import ID
from ledger.schemas.shared import Listed, PageQuery
from retries.failures import grouping
from retries.failures.fixes import suggestions
from retries.failures.grouping import find_known_error
from retries.insight.predictions import Prediction
from retries.schemas.predictions import PREDICTION, PredictionOut, prediction_out

DIAGNOSIS: dict[str, Any] = {
    "headline": "Error: Cannot find module 'uuid'",
    "pattern": ID,
    "signature": {"key": "2-1f0c9a6d5e7b8a", "entities": ["uuid"]},
    "known_error": {
        "name": "missing_module",
        "title": "Missing module",
        "action": "retry",
        "cause": "uuid is not installed where the command runs.",
        "fix": "Declare it in the project's manifest and install it.",
    },
    "suggestion": {
        "cause": "uuid is not installed where the command runs.",
        "cause_by": "tenfour",
        "fix": "Declare it in the project's manifest and install it.",
        "fix_by": "tenfour",
    },
    "prediction": PREDICTION,
}
FAILED_ATTEMPT = ATTEMPT | {
    "failure": ATTEMPT["failure"] | DIAGNOSIS,
    "prediction": PREDICTION,
}


class DiagnosisQuery(Schema):
    pattern: UUID | None = Field(None, description="the id of the failure's pattern")
    signature: str = Field("", max_length=16, description="the key of the failure's signature")
    known_error: str = Field(
        "", max_length=64, description="the name of the known error, such as rate_limit"
    )


class AttemptQuery(PageQuery, DiagnosisQuery):
    pass


class SignatureOut(Schema):
    key: str = Field(description="equal for failures of one pattern and one cause")
    entities: list[str] = Field(
        description="what identifies the cause, such as a module or a host; empty if nothing does"
    )


class KnownErrorOut(Schema):
    name: str = Field(description="its name, such as rate_limit")
    title: str = Field(description="its title")
    action: str = Field(description="what helps: retry, wait, or ask")
    cause: str = Field(description="the usual cause")
    fix: str = Field(description="the usual fix")


class SuggestionOut(Schema):
    cause: str = Field(description="the likely cause; empty if there is none")
    cause_by: str = Field(description="who names the cause: agent, tenfour, or empty")
    fix: str = Field(description="the suggested fix; empty if there is none")
    fix_by: str = Field(
        description="who suggests the fix: person if it worked before, agent, tenfour, or empty"
    )


class DiagnosisOut(Schema):
    headline: str | None = Field(description="the line that tells the cause; untrusted text")
    pattern: UUID | None = Field(description="the failure's pattern, or null")
    signature: SignatureOut | None = Field(description="the pattern with what the error names")
    known_error: KnownErrorOut | None = Field(description="the known error, or null")
    suggestion: SuggestionOut | None = Field(description="a likely cause and a fix, or null")
    prediction: PredictionOut | None = Field(
        description="the chance of a task with this failure to be done within its attempts; null "
        "without a failure"
    )


class DiagnosedFailureOut(FailureOut, DiagnosisOut):
    pass


class DiagnosedAttemptOut(AttemptOut):
    failure: DiagnosedFailureOut | None = Field(description="what went wrong; null if nothing did")
    prediction: PredictionOut | None = Field(
        description="the chance of its task to be done within its attempts: after its failure, or "
        "as it was before its end"
    )

    model_config = ConfigDict(json_schema_extra={"example": FAILED_ATTEMPT})


class DiagnosedAttemptList(Listed):
    data: list[DiagnosedAttemptOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [FAILED_ATTEMPT], "next_cursor": None, "has_more": False}
        }
    )


def diagnosed_attempt_out(attempt: Attempt, prediction: Prediction | None) -> dict[str, Any]:
    """Return the JSON object for an attempt whose failure is loaded with its pattern."""
    failure: Failure | None = getattr(attempt, "failure", None)
    out = attempt_out(attempt) | {"prediction": prediction_out(prediction)}
    return out | {"failure": diagnosed_failure_out(failure, prediction)} if failure else out


def diagnosed_failure_out(failure: Failure, prediction: Prediction | None) -> dict[str, Any]:
    return failure_out(failure) | diagnosis_out(failure, prediction)


def diagnosis_out(
    failure: Failure | None, prediction: Prediction | None, *, offered: str = ""
) -> dict[str, Any]:
    """Return what a failure tells, which is loaded with its pattern; nulls without one.

    `offered` is the first fix that a person is offered, if one is asked.
    """
    if failure is None:
        return dict.fromkeys(DiagnosisOut.model_fields)
    grouped, known = getattr(failure, "grouped", None), find_known_error(failure)
    suggestion = suggestions.suggest(failure, offered=offered)
    return {
        "headline": grouping.headline_of(failure),
        "pattern": grouped.pattern_id if grouped else None,
        # A failure that was stored before there were signatures has none.
        "signature": {"key": grouped.signature, "entities": grouped.entities}
        if grouped and grouped.signature
        else None,
        "known_error": {
            "name": known.error.name,
            "title": known.error.title,
            "action": str(known.error.action),
            "cause": known.cause,
            "fix": known.fix,
        }
        if known
        else None,
        "suggestion": {name: getattr(suggestion, name) for name in SuggestionOut.model_fields}
        if suggestion
        else None,
        "prediction": prediction_out(prediction),
    }
