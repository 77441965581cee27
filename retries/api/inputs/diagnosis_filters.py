"""Filters that attempts, escalations and patterns share: pattern, signature and known error."""

from typing import Any, TypeVar

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from ledger.models import Failure
from retries.models import Grouped
from retries.schemas.diagnoses import DiagnosisQuery

Q = TypeVar("Q", bound=QuerySet[Any])
COLUMNS = {"pattern": "pattern_id", "signature": "signature", "known_error": "known_error"}


def read_conditions(query: DiagnosisQuery) -> dict[str, Any]:
    values = {column: getattr(query, name) for name, column in COLUMNS.items()}
    return {column: value for column, value in values.items() if value}


def filter_attempts(rows: Q, query: DiagnosisQuery) -> Q:
    conditions = read_conditions(query)
    return rows.filter(
        **{f"failure__grouped__{column}": value for column, value in conditions.items()}
    )


def filter_escalations(rows: Q, query: DiagnosisQuery) -> Q:
    # The rows show the diagnosis of the last failure before the escalation.
    conditions = read_conditions(query)
    if not conditions:
        return rows
    before = Failure.objects.filter(
        task=OuterRef("task"), attempt__number__lte=OuterRef("attempts")
    ).order_by("-pk")
    last = Subquery(before.values("pk")[:1])
    return rows.alias(last_failure=last).filter(
        Exists(Grouped.objects.filter(failure=OuterRef("last_failure"), **conditions))
    )


def filter_patterns(rows: Q, query: DiagnosisQuery) -> Q:
    # A pattern matches if any of its failures does.
    conditions = read_conditions(query)
    if id := conditions.pop("pattern_id", None):
        rows = rows.filter(pk=id)
    if not conditions:
        return rows
    return rows.filter(Exists(Grouped.objects.filter(pattern=OuterRef("pk"), **conditions)))
