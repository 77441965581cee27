"""The circuit breaker of one agent."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.db.models import Q

from ledger.models.agent import Agent
from ledger.states import BreakerState


class Breaker(models.Model):
    """Written only by `retries.breaker`. An agent without a row has a closed breaker."""

    agent = models.OneToOneField(Agent, models.CASCADE, primary_key=True)
    state = models.CharField(
        max_length=10, choices=BreakerState.choices, db_default=BreakerState.CLOSED.value
    )
    failures = models.IntegerField(db_default=0, help_text="consecutive failures")
    successes = models.IntegerField(db_default=0, help_text="successful probes while half open")
    opened_at = models.DateTimeField(null=True)
    kept_open_at = models.DateTimeField(
        null=True, help_text="when a person decided that it stays open; null if the clock decides"
    )
    probe_attempt = models.UUIDField(null=True)
    reason = models.TextField(db_default="")
    trips = models.IntegerField(db_default=0)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=BreakerState.values), name="breaker_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state=BreakerState.CLOSED) | Q(opened_at__isnull=False),
                name="breaker_open_has_opened_at",
            ),
        ]

    @property
    def is_kept_open(self) -> bool:
        return self.state == BreakerState.OPEN and self.kept_open_at is not None

    @property
    def retry_at(self) -> datetime | None:
        """Return when an open breaker lets the first probe through; None if it is kept open."""
        if self.state != BreakerState.OPEN or self.opened_at is None or self.is_kept_open:
            return None
        return self.opened_at + timedelta(seconds=settings.TENFOUR["BREAKER_OPEN_SECONDS"])

    def __str__(self) -> str:
        return f"{self.agent_id} {self.state}"
