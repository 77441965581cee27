"""The token: a bearer key."""

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from ledger.authorization.permissions import may
from ledger.authorization.principal import Principal
from ledger.models.agent import ACCOUNT_LENGTH, Agent
from ledger.models.fields import key, stamp
from ledger.models.project import Project


class TokenKind(models.TextChoices):
    AGENT = "agent"
    ORCHESTRATOR = "orchestrator"
    OPERATOR = "operator"
    READER = "reader"


class TokenQuerySet(models.QuerySet["Token"]):
    def visible_to(self, principal: Principal) -> Self:
        """Return the caller's own token, or with `tokens:write` the tokens of its project."""
        if may(principal, "tokens:write"):
            return self.filter(project_id=principal.project_id)
        return self.filter(id=principal.token_id)


class Token(models.Model):
    """Only the SHA-256 of the secret is stored; the secret is shown once."""

    id = key()
    kind = models.CharField(max_length=12, choices=TokenKind.choices)
    project = models.ForeignKey(Project, models.PROTECT)
    agent = models.ForeignKey(Agent, models.CASCADE, null=True, blank=True)
    name = models.CharField(max_length=64)
    # the account that the token's calls are billed to; without one the agent's
    account = models.CharField(max_length=ACCOUNT_LENGTH, blank=True, db_default="")
    prefix = models.CharField(
        max_length=16, help_text="the first characters, which identify the token"
    )
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=32))
    created_by = models.CharField(max_length=64)
    created_at = stamp()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, editable=False)
    first_used_at = models.DateTimeField(null=True, editable=False)
    first_call = models.JSONField(
        null=True, editable=False, help_text="what the first call was and where it came from"
    )
    first_hook = models.JSONField(
        null=True, editable=False, help_text="the first event of a coding agent's session"
    )

    objects = TokenQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=TokenKind.values), name="token_kind_known"),
            models.CheckConstraint(
                condition=Q(kind=TokenKind.AGENT, agent__isnull=False)
                | Q(~Q(kind=TokenKind.AGENT), agent__isnull=True),
                name="token_agent_only_for_agents",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
