"""Read the tokens of a project for the Tokens page."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import Case, Count, Q, QuerySet, When

from dashboard.lists.compiled_queries import compiled
from dashboard.lists.shared_queries import of_project
from ledger.access.scopes import PRESETS
from ledger.models import Agent, Project, Token
from ledger.models.token import TokenKind

LISTED = 100
# expired and revoked tokens stay listed for so long
ENDED_SHOWN = timedelta(days=30)
SOON = timedelta(days=14)
AGENTS_LISTED = 500


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token with what its row says."""

    row: Token
    now: datetime

    @property
    def is_over(self) -> bool:
        return bool(self.row.revoked_at) or self.is_expired

    @property
    def is_expired(self) -> bool:
        return bool(self.row.expires_at and self.row.expires_at <= self.now)

    @property
    def expires_soon(self) -> bool:
        return bool(self.row.expires_at and self.row.expires_at <= self.now + SOON)

    @property
    def days_left(self) -> int:
        return (self.row.expires_at - self.now).days if self.row.expires_at else 0

    @property
    def scopes_text(self) -> str:
        preset, own = PRESETS[TokenKind(self.row.kind)], set(self.row.scopes)
        if own == preset:
            return f"{self.row.kind} preset"
        if own > preset:
            return f"{self.row.kind} preset + {', '.join(sorted(own - preset))}"
        shown = sorted(own)
        return ", ".join(shown) if len(shown) <= 2 else f"{shown[0]} and {len(shown) - 1} more"


def select_tokens(project: Project | None, *, now: datetime) -> QuerySet[Token]:
    """Return the tokens that still work, and the recently ended ones."""
    since = now - ENDED_SHOWN
    rows: QuerySet[Token] = of_project(Token.objects.all(), project)
    return rows.exclude(revoked_at__lt=since).exclude(expires_at__lt=since)


def filter_tokens(
    project: Project | None, *, kind: str = "", text: str = "", now: datetime
) -> QuerySet[Token]:
    rows = select_tokens(project, now=now).select_related("agent", "project").defer("digest")
    if kind:
        rows = rows.filter(kind=kind)
    if text:
        names = ("name", "prefix", "agent__name")
        rows = rows.filter(reduce(or_, (Q(**{f"{each}__icontains": text}) for each in names)))
    # Working tokens come first, then the newest.
    is_over = Q(revoked_at__isnull=False) | Q(expires_at__lte=now)
    return rows.order_by(Case(When(is_over, then=1), default=0), "-id")


def find_token(project: Project | None, id: UUID, *, now: datetime) -> ListedToken | None:
    row = filter_tokens(project, now=now).filter(pk=id).first()
    found = ListedToken(row, now) if row else None
    return None if found and found.is_over else found


def count_tokens(project: Project | None, *, now: datetime) -> dict[str, int]:
    valid = Q(revoked_at=None, expires_at__gt=now, expires_at__lte=now + SOON)
    kinds = {kind: Count("pk", filter=Q(kind=kind)) for kind in TokenKind.values}
    rows = select_tokens(project, now=now).order_by()
    return rows.aggregate(all=Count("pk"), soon=Count("pk", filter=valid), **kinds)


@compiled
def list_agents(project: Project | None) -> QuerySet[Agent, str]:
    rows = of_project(Agent.objects.workers(), project).order_by("name")
    return rows.values_list("name", flat=True).distinct()[:AGENTS_LISTED]
