"""The models of retries, one noun per file."""

from retries.models.activity_count import ActivityCount, DurationCount
from retries.models.escalation import Escalation, EscalationQuerySet
from retries.models.experiment import ContextExperiment
from retries.models.failure_pattern import FailureCount, FailurePattern, FixVerdict, Grouped
from retries.models.figures import (
    AckTarget,
    InsightFigure,
    MetricTotal,
    OutcomeRate,
    PlanForecast,
    TaskTarget,
)
from retries.models.notification_channel import Channel, OngoingCondition, QuietHours, StreamCursor
from retries.models.notification_delivery import Delivery, DeliveryTally, DeliveryTry
from retries.models.notification_rule import NotificationRule, NotificationThread
from retries.models.on_call import EscalationPolicy, Rota
from retries.models.operation import Operation, OperationItem
from retries.models.past_failure import PastFailures, PastFixTry
from retries.models.permission import (
    PermissionRequest,
    PermissionRequestQuerySet,
    PermissionRule,
    PermissionRuleQuerySet,
)
from retries.models.retry_policy import RetryPolicy
from retries.models.stored_context import (
    AttemptDiff,
    AttemptOutput,
    AttemptSpan,
    AttemptTrace,
    StoredContext,
)
