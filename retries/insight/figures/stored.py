"""Store the figures of the Insight page's panels, with the largest groups of each."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from ledger.database import sql
from ledger.models import Project
from retries.models import InsightFigure
from retries.states import QUESTIONS

MOST_GROUPS = 8

# When a person was first asked about a task `n`. An agent's own questions say nothing about its
# attempts; a task is done without help if nothing else was asked.
ASKED = f"""select min(e.opened_at) as asked_at from retries_escalation e
    where e.task_id = n.id and e.reason not in ({sql.quoted(QUESTIONS)})"""
ALONE = "n.state = 'done' and e.asked_at is null"
ENDED = "(n.state in ('done', 'failed') or e.asked_at is not null)"

NAMES = """select 'agent' as kind, id::text as key, name as name from ledger_agent
    where id = any(%(agent)s::uuid[])
union all select 'plan', id::text, trim(ref || ' ' || left(title, 120)) from ledger_plan
    where id = any(%(plan)s::uuid[])
union all select 'pattern', id::text, left(template, 160) from retries_failurepattern
    where id = any(%(pattern)s::uuid[])"""


def store(project: Project, panel: str, days: int, data: dict[str, Any], *, now: datetime) -> None:
    InsightFigure.objects.update_or_create(
        project=project, panel=panel, days=days, defaults={"computed_at": now, "data": data}
    )


def choose(
    rows: Sequence[Any], is_enough: Callable[[Any], bool]
) -> tuple[list[Any], dict[str, int]]:
    """Return the first rows that rest on enough cases, and how many others there are."""
    shown = [row for row in rows if is_enough(row)]
    counts = {"hidden": len(rows) - len(shown), "more": max(0, len(shown) - MOST_GROUPS)}
    return shown[:MOST_GROUPS], counts


def fetch_names(**keys: list[Any]) -> dict[tuple[str, str], str]:
    """Return the names of agents, plans and patterns, by kind and id."""
    rows = sql.run(NAMES, **{"agent": [], "plan": [], "pattern": []} | keys)
    return {(row["kind"], row["key"]): row["name"] for row in rows}
