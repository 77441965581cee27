"""Schemas of what Tenfour reads from a failure, and of the attempts and failures that have it."""

from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field

from ledger.models import Attempt, Failure
from ledger.schemas.attempts import AttemptOut, FailureOut
from ledger.schemas.shapes import ID, Part, field
from ledger.schemas.shared import PageQuery
from retries.failures import grouping
from retries.failures.fixes import suggestions
from retries.failures.grouping import find_known_error
from retries.insight.predictions import Prediction
from retries.models import Grouped


class PredictionOut(Part):
    chance: float | None = field(
        "the chance, from 0 to 1, that the task is done within its attempts; null if "
        "n is less than 20",
        0.31,
        source=lambda row: None if row.chance is None else round(row.chance, 4),
    )
    n: int = field("the number of earlier tasks that the chance rests on", 57, source="tasks")
    by: str | None = field(
        "what those tasks have in common with it: signature, pattern, agent (with "
        "kind), or kind; null without a chance",
        "signature",
        source="level",
        empty_is_null=True,
    )
    brier_score: float | None = field(
        "the mean squared error of such chances for the newest fifth of the history",
        0.121,
        source="brier",
    )


def prediction_out(prediction: Prediction | None) -> dict[str, Any] | None:
    return PredictionOut.write(prediction) if prediction else None


class DiagnosisQuery(Schema):
    pattern: UUID | None = Field(None, description="the id of the failure's pattern")
    signature: str = Field("", max_length=16, description="the key of the failure's signature")
    known_error: str = Field(
        "", max_length=64, description="the name of the known error, such as rate_limit"
    )


class AttemptQuery(PageQuery, DiagnosisQuery):
    pass


class SignatureOut(Part):
    key: str = field(
        "equal for failures of one pattern and one cause", "2-1f0c9a6d5e7b8a", source="signature"
    )
    entities: list[str] = field(
        "what identifies the cause, such as a module or a host; empty if nothing does", ["uuid"]
    )


FOR_PERSON = field("what a person has to do; empty if the agent can fix it itself", "")


class KnownErrorOut(Part):
    name: str = field("its name, such as rate_limit", "missing_module", source="error.name")
    title: str = field("its title", "Missing module", source="error.title")
    action: str = field("what helps: retry, wait, or ask", "retry", source="error.action")
    cause: str = field("the usual cause", "uuid is not installed where the command runs.")
    fix: str = field("the usual fix", "Declare it in the project's manifest and install it.")
    for_person: str = FOR_PERSON


class SuggestionOut(Part):
    cause: str = field(
        "the likely cause; empty if there is none", "uuid is not installed where the command runs."
    )
    cause_by: str = field("who names the cause: agent, tenfour, or empty", "tenfour")
    fix: str = field(
        "the suggested fix; empty if there is none",
        "Declare it in the project's manifest and install it.",
    )
    fix_by: str = field(
        "who suggests the fix: person if it worked before, agent, tenfour, or empty", "tenfour"
    )
    for_person: str = FOR_PERSON


def find_grouped(failure: Failure) -> Grouped | None:
    return getattr(failure, "grouped", None)


def find_signed(failure: Failure) -> Grouped | None:
    # A failure that was stored before there were signatures has no group.
    grouped = find_grouped(failure)
    return grouped if grouped and grouped.signature else None


class DiagnosisOut(Part):
    headline: str | None = field(
        "the line that tells the cause; untrusted text",
        "Error: Cannot find module 'uuid'",
        source=grouping.headline_of,
    )
    pattern: UUID | None = field(
        "the failure's pattern, or null",
        ID,
        source=lambda failure: getattr(find_grouped(failure), "pattern_id", None),
    )
    signature: SignatureOut | None = field(
        "the pattern with what the error names", source=find_signed
    )
    known_error: KnownErrorOut | None = field("the known error, or null", source=find_known_error)
    suggestion: SuggestionOut | None = field("a likely cause and a fix, or null", given=True)
    prediction: PredictionOut | None = field(
        "the chance of a task with this failure to be done within its attempts; null without a "
        "failure",
        given=True,
    )


class DiagnosedFailureOut(FailureOut, DiagnosisOut):
    pass


class DiagnosedAttemptOut(AttemptOut):
    failure: DiagnosedFailureOut | None = field("what went wrong; null if nothing did", given=True)
    prediction: PredictionOut | None = field(
        "the chance of its task to be done within its attempts: after its failure, or as it was "
        "before its end",
        given=True,
    )


def diagnosed_attempt_out(attempt: Attempt, prediction: Prediction | None) -> dict[str, Any]:
    failure: Failure | None = getattr(attempt, "failure", None)
    return DiagnosedAttemptOut.write(
        attempt,
        failure=diagnosed_failure_out(failure, prediction) if failure else None,
        prediction=prediction_out(prediction),
    )


def diagnosed_failure_out(failure: Failure, prediction: Prediction | None) -> dict[str, Any]:
    return DiagnosedFailureOut.write(failure, **explain(failure, prediction))


def diagnosis_out(
    failure: Failure | None, prediction: Prediction | None, *, offered: str = ""
) -> dict[str, Any]:
    # `offered` is the first fix that a person is offered, if one is asked. The failure is loaded
    # with its pattern; without one, all fields are null.
    if failure is None:
        return dict.fromkeys(DiagnosisOut.model_fields)
    return DiagnosisOut.write(failure, **explain(failure, prediction, offered=offered))


def explain(
    failure: Failure, prediction: Prediction | None, *, offered: str = ""
) -> dict[str, Any]:
    suggestion = suggestions.suggest(failure, offered=offered)
    return {
        "suggestion": SuggestionOut.write(suggestion) if suggestion else None,
        "prediction": prediction_out(prediction),
    }
