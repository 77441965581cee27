"""Find the one page that an id, a short id, a ref or an agent's name stands for."""

import re
from uuid import UUID

from django.urls import reverse

from dashboard import query_box
from dashboard.agents import queries as agent_queries
from dashboard.plans import queries as plan_queries
from ledger import sql
from ledger.models import Project

# The tables whose rows have a page: the page, the column with the id in its URL, and the row's
# project. A standing instruction without a project holds in each of them.
OWN = "{table}.project_id"
OF_AGENT = "(select project_id from ledger_agent where id = {table}.agent_id)"
PAGES = {
    "ledger_instruction": ("instruction", "id", OWN),
    "retries_escalation": ("escalation", "id", OWN),
    "ledger_task": ("task", "id", OWN),
    "ledger_attempt": ("task", "task_id", OF_AGENT),
    "ledger_deadletter": ("deadletter", "id", OWN),
    "retries_failurepattern": ("pattern", "id", OWN),
    "ledger_agent": ("agent", "id", OWN),
    "ledger_plan": ("plan", "id", OWN),
    "ledger_standinginstruction": ("rule", "id", "coalesce({table}.project_id, %(project)s)"),
    "ledger_session": ("session", "id", OWN),
}
QUOTES = "\"'`<>()[],;"
# Pages shorten an id to its last 8 digits. No index serves those, so only new rows are searched.
SHORT_ID = re.compile(r"(?:…|\.{3})?(?P<digits>[0-9a-f]{8})")
SHORT_IDS_SEARCHED = 50_000  # newest rows of each table


def union_of(select: str) -> str:
    """Return the SQL that runs `select` on each table, until one has a row."""
    return " union all ".join(
        f"({select.format(table=table, page=page, column=column, own=own.format(table=table))})"
        for table, (page, column, own) in PAGES.items()
    )


IN_PROJECT = "(%(project)s::uuid is null or {own} = %(project)s)"
BY_ID = f"""{
    union_of(
        f"select '{{page}}' as page, {{column}} as id from {{table}} "
        f"where id = %(id)s and {IN_PROJECT}"
    )
} limit 1"""
BY_SHORT_ID = f"""{
    union_of(
        f'''select '{{page}}' as page, id from (
            select id as own, {{column}} as id, {IN_PROJECT} as seen from {{table}}
            order by {{table}}.id desc limit {SHORT_IDS_SEARCHED}
        ) newest where substring(uuid_send(own) from 13) = %(end)s and seen limit 1'''
    )
} limit 1"""


def find_url(text: str, project: Project | None) -> str:
    """Return the URL of the row with this id, name, ref or short id, or an empty string."""
    text = text.strip(QUOTES).strip()
    own = project.pk if project else None
    if id := query_box.as_id(text):
        return url_of(sql.run(BY_ID, id=id, project=own))
    if not text:
        return ""
    return (
        agent_queries.find_url(text, project)
        or plan_queries.find_url(text, project)
        or find_short_id(text, own)
    )


def find_short_id(text: str, project: UUID | None) -> str:
    match = SHORT_ID.fullmatch(text.lower())
    if match is None:
        return ""
    return url_of(sql.run(BY_SHORT_ID, end=bytes.fromhex(match["digits"]), project=project))


def url_of(rows: list[sql.Row]) -> str:
    found: list[tuple[str, UUID]] = [(row["page"], row["id"]) for row in rows]
    return reverse(f"dashboard:{found[0][0]}", args=[found[0][1]]) if found else ""
