"""The models of retries, one noun per file."""

from retries.models.escalation import Escalation, EscalationQuerySet
from retries.models.experiment import ContextExperiment
from retries.models.failure_pattern import FailurePattern, Grouped
from retries.models.insight_figure import InsightFigure
from retries.models.outcome_rate import OutcomeRate
from retries.models.retry_policy import RetryPolicy

__all__ = [
    "ContextExperiment",
    "Escalation",
    "EscalationQuerySet",
    "FailurePattern",
    "Grouped",
    "InsightFigure",
    "OutcomeRate",
    "RetryPolicy",
]
