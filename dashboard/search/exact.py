"""Find the one page that an id, a short id, a ref, a name or a fingerprint stands for."""

import re
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from dashboard.agents import queries as agent_queries
from dashboard.lists import query_box
from dashboard.plans import queries as plan_queries
from ledger.database import sql
from ledger.models import Project

# The tables whose rows have a page: the page, the column with the id in its URL, and the row's
# project. A standing instruction without a project applies to each project.
OWN = "{table}.project_id"
OF_AGENT = "(select project_id from ledger_agent where id = {table}.agent_id)"
OF_ONE = "case when cardinality({table}.project_ids) = 1 then {table}.project_ids[1] end"
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
    "retries_operation": ("operation", "id", OF_ONE),
}
QUOTES = "\"'`<>()[],;"
# Pages shorten an id to its last 8 digits. No index serves those, so only new rows are searched.
# The same digits may begin a pattern's fingerprint, which can also be given whole.
SHORT_ID = re.compile(r"(?:…|\.{3})?(?P<digits>[0-9a-f]{8}(?:[0-9a-f]{8})?)")
FINGERPRINT_LENGTH = 16
SEVERAL = "patterns"
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
# The list of patterns, if several projects have one. A merged pattern points to the one that it
# was merged into.
BY_FINGERPRINT = f"""select case when count(*) > 1 then '{SEVERAL}' else 'pattern' end as page,
    min(id::text)::uuid as id
from (
    select distinct coalesce(merged_into_id, id) as id from retries_failurepattern
    where fingerprint >= %(begin)s and fingerprint < %(begin)s::text || 'g'
        and (%(project)s::uuid is null or project_id = %(project)s) limit 2
) found having count(*) > 0"""
ENDS = "substring(uuid_send({own}) from 13) = %(end)s"
BY_SHORT_ID = f"""{
    union_of(
        f'''select '{{page}}' as page, id from (
            select id as own, {{column}} as id, {IN_PROJECT} as seen from {{table}}
            order by {{table}}.id desc limit {SHORT_IDS_SEARCHED}
        ) newest where {ENDS.format(own="own")} and seen limit 1'''
    )
} union all ({BY_FINGERPRINT}) limit 1"""
BY_OLD_SHORT_ID = f"""{
    union_of(
        f"select '{{page}}' as page, {{column}} as id from {{table}}"
        f" where {ENDS.format(own='id')} and {IN_PROJECT}"
    )
} limit 1"""


def find_url(text: str, project: Project | None) -> str:
    """Return the URL of the row with this id, name, ref or fingerprint, or an empty string."""
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


def is_short_id(text: str) -> bool:
    match = SHORT_ID.fullmatch(text.strip(QUOTES).strip().lower())
    return match is not None and len(match["digits"]) < FINGERPRINT_LENGTH


def find_old_url(text: str, project: Project | None) -> str:
    """Return the URL of the row whose id ends with these digits, or an empty string."""
    # This reads all rows, which takes seconds with millions of them.
    if not is_short_id(text):
        return ""
    digits = text.strip(QUOTES).strip()[-8:]
    own = project.pk if project else None
    return url_of(sql.run(BY_OLD_SHORT_ID, end=bytes.fromhex(digits), project=own))


def find_short_id(text: str, project: UUID | None) -> str:
    match = SHORT_ID.fullmatch(text.lower())
    if match is None:
        return ""
    digits = match["digits"]
    params = {"begin": digits, "project": project}
    if len(digits) == FINGERPRINT_LENGTH:
        rows = sql.run(BY_FINGERPRINT, **params)
    else:
        rows = sql.run(BY_SHORT_ID, end=bytes.fromhex(digits), **params)
    if rows and rows[0]["page"] == SEVERAL:
        return f"{reverse('dashboard:patterns')}?{urlencode({'q': f'state:all pattern:{digits}'})}"
    return url_of(rows)


def url_of(rows: list[sql.Row]) -> str:
    found: list[tuple[str, UUID]] = [(row["page"], row["id"]) for row in rows]
    return reverse(f"dashboard:{found[0][0]}", args=[found[0][1]]) if found else ""
