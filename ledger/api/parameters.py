"""Request values that several nouns read alike: states, agents, plans, and If-Match."""

import re
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import BinaryField, Func, Model, Q, QuerySet, Subquery, TextChoices
from django.db.models.functions import Coalesce

from ledger.agents import UnknownAgent, find_similar_names
from ledger.api.auth import PrincipalRequest, not_visible
from ledger.authorization.principal import Principal
from ledger.errors import IfMatchRequired, Invalid
from ledger.models import Agent, Plan, Project
from ledger.schemas.shared import SHORT_ID

M = TypeVar("M", bound=Model)
S = TypeVar("S", bound="QuerySet[Any, Any]")

DIGITS = re.compile(r"[0-9a-f]{4,32}", re.ASCII)
LAST_DIGITS = 8
SHORT_IDS_SEARCHED = 50_000  # newest rows
ETAG = re.compile(r'"v([1-9][0-9]{0,8})"')


def parse_states(text: str, states: type[TextChoices], *, what: str = "state") -> list[str]:
    """Return the states in a comma-separated list; raise Invalid for an unknown one."""
    names = text.split(",")
    if unknown := [name for name in names if name not in states.values]:
        known = ", ".join(states.values)
        raise Invalid(f"/{what}", f"'{unknown[0]}' is not a {what}. Use one of: {known}.")
    return names


def match_id(text: str, **other: str) -> Q:
    """Return the condition for rows with this id, or with the other name of a row."""
    try:
        return Q(pk=UUID(text)) | Q(**other)
    except ValueError:
        return Q(**other)


def find_by_id(rows: "QuerySet[M]", text: str, **other: str) -> M | None:
    found = list(rows.filter(match_id(text, **other))) if "\x00" not in text else []
    return min(found, key=lambda row: str(row.pk) != text.lower(), default=None)


def filter_by_id(rows: S, text: str) -> S:
    """Return the rows whose id begins with these digits, or ends with them if they are 8."""
    # No index serves the ends of ids, so only the newest rows are searched for those.
    if not text:
        return rows
    digits = text.lower().replace("-", "")
    if not DIGITS.fullmatch(digits):
        raise Invalid("/id", f"'{text}' is not {SHORT_ID}.")
    match = Q(pk__range=(UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))))
    if len(digits) == LAST_DIGITS:
        older = rows.order_by("-pk").values("pk")[SHORT_IDS_SEARCHED : SHORT_IDS_SEARCHED + 1]
        rows = rows.alias(id_end=IdEnd("pk"))
        match |= Q(id_end=bytes.fromhex(digits), pk__gt=Coalesce(Subquery(older), UUID(int=0)))
    return rows.filter(match)


class IdEnd(Func):
    """The last 8 digits of an id, as 4 bytes."""

    template = "substring(uuid_send(%(expressions)s) from 13)"
    output_field = BinaryField()


def find_agent_id(principal: Principal, id_or_name: str) -> UUID:
    """Return the id of the agent that a filter names; raise UnknownAgent if it isn't visible."""
    agent = find_by_id(Agent.objects.visible_to(principal), id_or_name, name=id_or_name)
    if agent is not None:
        id: UUID = agent.id
        return id
    nearest: list[str] = []
    if not principal.is_agent:  # an agent must not learn the names of others
        project = Project.objects.get(pk=principal.project_id)
        nearest = find_similar_names(id_or_name, project=project)
    suggestion = f" Nearest: {', '.join(nearest)}." if nearest else ""
    raise UnknownAgent(
        f"No agent with name or id '{id_or_name}' is visible to this token.{suggestion}",
        nearest=nearest,
        hint="Use a name from GET /v1/agents, or leave out the filter.",
    )


def find_plan(principal: Principal, id_or_ref: str) -> Plan:
    """Return the plan with this id or ref that the caller may see; raise NotFound."""
    plan = find_by_id(Plan.objects.visible_to(principal), id_or_ref, ref=id_or_ref)
    if plan is None:
        raise not_visible("plan", id_or_ref)
    return plan


def find_plan_id(principal: Principal, id_or_ref: str) -> UUID:
    """Return the id of the plan that a filter names; raise Invalid if it isn't visible."""
    plan = find_by_id(Plan.objects.visible_to(principal), id_or_ref, ref=id_or_ref)
    if plan is None:
        raise Invalid("/plan", f"No plan with id or ref '{id_or_ref}' is visible to this token.")
    return plan.pk


def parse_if_match(request: PrincipalRequest) -> int:
    """Return the version in If-Match; raise IfMatchRequired or Invalid."""
    etag = request.headers.get("If-Match")
    if not etag:
        raise IfMatchRequired("The request has no If-Match header.")
    match = ETAG.fullmatch(etag)
    if match is None:
        raise Invalid("/If-Match", 'If-Match must be the ETag you received, such as "v7".')
    return int(match[1])
