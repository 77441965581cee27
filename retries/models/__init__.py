"""The models of retries, one noun per file."""

from retries.models.ack_target import AckTarget
from retries.models.activity_count import ActivityCount, DurationCount
from retries.models.attempt_diff import AttemptDiff
from retries.models.escalation import Escalation, EscalationQuerySet
from retries.models.experiment import ContextExperiment
from retries.models.failure_count import FailureCount
from retries.models.failure_pattern import FailurePattern, Grouped
from retries.models.fix_verdict import FixVerdict
from retries.models.insight_figure import InsightFigure
from retries.models.metric_total import MetricTotal
from retries.models.notification_channel import (
    Channel,
    OngoingCondition,
    QuietHours,
    StreamCursor,
)
from retries.models.notification_delivery import Delivery, DeliveryTally, DeliveryTry
from retries.models.notification_rule import NotificationRule, NotificationThread
from retries.models.operation import Operation, OperationItem
from retries.models.outcome_rate import OutcomeRate
from retries.models.past_failure import PastFailures, PastFixTry
from retries.models.retry_policy import RetryPolicy
from retries.models.stored_context import StoredContext

__all__ = [
    "AckTarget",
    "ActivityCount",
    "AttemptDiff",
    "Channel",
    "ContextExperiment",
    "Delivery",
    "DeliveryTally",
    "DeliveryTry",
    "DurationCount",
    "Escalation",
    "EscalationQuerySet",
    "FailureCount",
    "FailurePattern",
    "FixVerdict",
    "Grouped",
    "InsightFigure",
    "MetricTotal",
    "NotificationRule",
    "NotificationThread",
    "OngoingCondition",
    "Operation",
    "OperationItem",
    "OutcomeRate",
    "PastFailures",
    "PastFixTry",
    "QuietHours",
    "RetryPolicy",
    "StoredContext",
    "StreamCursor",
]
