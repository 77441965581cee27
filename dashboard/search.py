"""The search box: open what a name, an id or a ref stands for, or else search instructions."""

import re
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import query_box
from dashboard.access import operators_only
from dashboard.agents import queries as agent_queries
from dashboard.navigation import requested_project
from dashboard.plans import queries as plan_queries
from dashboard.rendering import HtmxRequest
from ledger import sql
from ledger.models import Project

# the tables whose rows have a page: the page, and the column with the id in its URL
PAGES = {
    "ledger_instruction": ("instruction", "id"),
    "retries_escalation": ("escalation", "id"),
    "ledger_task": ("task", "id"),
    "ledger_attempt": ("task", "task_id"),
    "ledger_deadletter": ("deadletter", "id"),
    "retries_failurepattern": ("pattern", "id"),
    "ledger_agent": ("agent", "id"),
    "ledger_plan": ("plan", "id"),
    "ledger_standinginstruction": ("rule", "id"),
    "ledger_session": ("session", "id"),
}
QUOTES = "\"'`<>()[],;"
# Pages shorten an id to its last 8 digits. No index serves those, so only new rows are searched.
SHORT_ID = re.compile(r"(?:…|\.{3})?(?P<digits>[0-9a-f]{8})")
SHORT_IDS_SEARCHED = 50_000  # newest rows of each table


def union_of(select: str) -> str:
    """Return the SQL that runs `select` on each table, until one has a row."""
    return " union all ".join(
        f"({select.format(table=table, page=page, column=column)})"
        for table, (page, column) in PAGES.items()
    )


BY_ID = f"""{
    union_of("select '{page}' as page, {column} as id from {table} where id = %(id)s")
} limit 1"""
BY_SHORT_ID = f"""{
    union_of(
        f'''select '{{page}}' as page, id from (
            select id as own, {{column}} as id from {{table}}
            order by {{table}}.id desc limit {SHORT_IDS_SEARCHED}
        ) newest where substring(uuid_send(own) from 13) = %(end)s limit 1'''
    )
} limit 1"""


@require_safe
@operators_only
def search(request: HtmxRequest) -> HttpResponse:
    """Redirect to what the text names, or else to the instructions that match it."""
    text = query_box.clean(request.GET.get("q", ""))
    project = requested_project(request)
    if address := find_url(text.strip(QUOTES).strip(), project):
        return redirect(address)
    params = QueryDict(mutable=True)
    if text:
        params["q"] = text
    if name := request.GET.get("project"):
        params["project"] = name
    return redirect(f"{reverse('dashboard:instructions')}?{params.urlencode()}".rstrip("?"))


def find_url(text: str, project: Project | None) -> str:
    """Return the URL of what has this id, name, ref or short id, or an empty string."""
    if id := query_box.as_id(text):
        return url_of(sql.run(BY_ID, id=id))
    if not text:
        return ""
    return (
        agent_queries.find_url(text, project)
        or plan_queries.find_url(text, project)
        or find_short_id(text)
    )


def find_short_id(text: str) -> str:
    match = SHORT_ID.fullmatch(text.lower())
    return url_of(sql.run(BY_SHORT_ID, end=bytes.fromhex(match["digits"]))) if match else ""


def url_of(rows: list[sql.Row]) -> str:
    found: list[tuple[str, UUID]] = [(row["page"], row["id"]) for row in rows]
    return reverse(f"dashboard:{found[0][0]}", args=[found[0][1]]) if found else ""
