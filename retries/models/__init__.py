"""The models of retries, one noun per file."""

from retries.models.escalation import Escalation, EscalationQuerySet
from retries.models.failure_pattern import FailurePattern, Grouped
from retries.models.retry_policy import RetryPolicy

__all__ = ["Escalation", "EscalationQuerySet", "FailurePattern", "Grouped", "RetryPolicy"]
