"""Figures of failure patterns: their failures and agents.

Failures that were deleted with their tasks still count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from ledger.database import sql
from retries.models import FailureCount, FailurePattern

# of a pattern in a query, all its failures
OF_PATTERN = FailureCount.objects.filter(pattern=OuterRef("pk")).order_by().values("pattern")
FAILURES = Coalesce(Subquery(OF_PATTERN.values(total=Sum("failures"))), 0)
MOST_MERGED = 50  # templates that are listed
TOTALS = """select pattern_id, sum(failures)::int as total, max(last_at) as last_at
from retries_failurecount where pattern_id = any(%(ids)s) group by 1"""
AGENT_NAMES = """select c.pattern_id, array_agg(a.name order by a.name) as names from (
    select distinct pattern_id, agent_id from retries_failurecount where pattern_id = any(%(ids)s)
) c
join ledger_agent a on a.id = c.agent_id group by 1"""
# of the agents with the most failures, the last ones first
BY_AGENT = """select agent_id, sum(failures)::int as n, max(last_at) as last_at
from retries_failurecount where pattern_id = %(pattern)s
group by 1 order by n desc, last_at desc limit %(most)s::int"""


@dataclass(frozen=True, slots=True)
class Total:
    """The number and the last time of a pattern's failures."""

    total: int
    last_at: datetime


def count_failures(ids: Sequence[UUID]) -> dict[UUID, Total]:
    rows = sql.run(TOTALS, ids=list(ids))
    return {row["pattern_id"]: Total(row["total"], row["last_at"]) for row in rows}


def list_agent_names(ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    return {row["pattern_id"]: row["names"] for row in sql.run(AGENT_NAMES, ids=list(ids))}


def count_by_agent(pattern_id: UUID, *, most: int) -> dict[UUID, int]:
    rows = sql.run(BY_AGENT, pattern=pattern_id, most=most)
    return {row["agent_id"]: row["n"] for row in rows}


def list_merged_templates(pattern: FailurePattern) -> list[str]:
    """Return a pattern's own template, then the first templates that were merged into it."""
    if not pattern.own_template:
        return []
    rows = pattern.merged.order_by("merged_at", "pk").values_list("template", flat=True)
    return [pattern.own_template, *rows[: MOST_MERGED - 1]]
