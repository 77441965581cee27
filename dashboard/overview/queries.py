"""Query whether there is anything to show, the awaited token, and how agents spent their time."""

from typing import Any

from django.db.models import Exists, OuterRef, Q

from dashboard.connect.queries import FIRST_DIGEST
from dashboard.lists.shared_queries import of_project
from ledger.database.optional_cache import get_or_compute
from ledger.models import Instruction, Project, Task, Token
from retries.models import InsightFigure

# With fewer instructions in a day, a query checks whether all are first instructions.
FEW = 2
# The clock computes the figures of Insight once an hour.
IDLE_SECONDS = 60


def has_work(project: Project | None) -> bool:
    # First instructions that nothing has acknowledged yet are no work.
    first = Q(content_sha256=FIRST_DIGEST, acknowledged_at=None)
    if of_project(Instruction.objects.exclude(first), project).exists():
        return True
    return of_project(Task.objects.all(), project).exists()


def list_idle_figures(project: Project | None, *, days: int) -> list[dict[str, Any]]:
    rows = of_project(InsightFigure.objects.filter(panel="idle", days=days), project)
    return get_or_compute(
        f"overview-idle:{project.id if project else 'all'}:{days}",
        lambda: list(rows.order_by("project_id").values_list("data", flat=True)),
        seconds=IDLE_SECONDS,
    )


def find_waiting_token(project: Project | None) -> Token | None:
    """Return the newest valid token that connecting an agent created, or None."""
    # Connecting an agent sends a first instruction, by which such a token is found.
    rows = Token.objects.select_related("agent", "project").defer("digest")
    first = Instruction.objects.filter(agent=OuterRef("agent"), content_sha256=FIRST_DIGEST)
    valid = of_project(rows, project).filter(Exists(first), revoked_at=None)
    return valid.order_by("-id").first()
