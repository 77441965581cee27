"""Find the project that a request is about, for people who may not see every project.

A person who sees every project is not restricted, and no query is needed. Others always look at
one of their projects. What a request names by id, in its address or its form, must be in a project
of theirs, or it does not exist for them.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.db import DEFAULT_DB_ALIAS
from django.db.models import UUIDField
from django.http import Http404, HttpRequest

from ledger.authorization.permissions import projects_where, roles_of
from ledger.database import sql
from ledger.models import Project

ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}(?![0-9a-f])", re.I)
# parameters and fields with a project's name
PROJECT_FIELDS = ("project", "in")
# user text may contain any id, and a live key contains the newest event's id
TEXT_FIELDS = {
    "q",
    "content",
    "text",
    "message",
    "reason",
    "note",
    "fix",
    "matcher",
    "tried",
    "payload",
    "source",
    "since",
    "held",
}
# the columns that name a row's project or projects, and how to select it
COLUMNS = {"project_id": "project_id", "project_ids": "unnest(project_ids) as project_id"}
# rows that belong to a person, not a project; their views check the person
OWN_ROWS = {"browser_end"}
# addresses with the id that a new row will have
NEW_ROWS = {"connect_token"}


def set_project(request: HttpRequest, verb: str) -> None:
    """Set `page_project` and `page_projects` on the person, for a request that needs a verb."""
    # `page_projects` is None for a person who may do this in every project. Raises Http404 for what
    # is in none of the person's projects, and PermissionDenied if the role is too weak.
    person: Any = request.user
    person.page_project = person.page_projects = None
    allowed = projects_where(person, verb)
    if allowed is None and not roles_of(person):
        return
    if not roles_of(person):
        raise PermissionDenied
    known = {each.project_id: each.project_name for each in roles_of(person)}
    asked = [*find_projects(request), *projects_named(names_of(request), known)]
    if allowed is not None:  # otherwise a permission covers every project, besides the roles
        if not set(asked) <= known.keys():
            raise Http404("There is no such thing in your projects.")
        person.page_projects = [as_project(id, known[id]) for id in known if id in allowed]
        asked += projects_named([name_of_next(request)], known)
        asked = [id for id in asked if id] or [each.pk for each in person.page_projects]
        if not asked or not set(asked) <= allowed:
            raise PermissionDenied
    if asked and asked[0] in known:
        person.page_project = as_project(asked[0], known[asked[0]])


def as_project(id: UUID, name: str) -> Project:
    return Project.from_db(DEFAULT_DB_ALIAS, ["id", "name"], [id, name])


def projects_named(names: Iterable[str], known: dict[UUID, str]) -> list[UUID | None]:
    """Return the projects with these names; None stands for one without a role of the person."""
    ids = {name: id for id, name in known.items()}
    return [ids.get(name) for name in names if name]


def names_of(request: HttpRequest) -> list[str]:
    data = (request.GET, request.POST)
    return [name for each in data for field in PROJECT_FIELDS for name in each.getlist(field)]


def name_of_next(request: HttpRequest) -> str:
    # `urlsplit` fails for some texts
    _, _, query = request.POST.get("next", "").partition("#")[0].partition("?")
    return parse_qs(query).get("project", [""])[0]


def find_projects(request: HttpRequest) -> list[UUID | None]:
    """Return the projects of everything that a request names by id, the path's first."""
    # An id in the path must exist; other unknown ids are ignored, as views do. None stands for what
    # belongs to every project.
    match = request.resolver_match
    assert match is not None
    path = list(ids_in(str(value) for value in match.kwargs.values()))
    ids = [*path, *ids_in(texts_of(request))]
    if not ids or match.url_name in OWN_ROWS:
        return []
    found: dict[UUID, list[UUID | None]] = {}
    for row in sql.run(find_sql(), ids=ids):
        found.setdefault(row["id"], []).append(row["project_id"])
    if not set(path) <= found.keys() and match.url_name not in NEW_ROWS:
        raise Http404("There is no such thing in your projects.")
    return [project for id in ids for project in found.get(id, [])]


def ids_in(texts: Iterable[str]) -> Iterator[UUID]:
    return (UUID(found) for text in texts for found in ID.findall(text))


def texts_of(request: HttpRequest) -> Iterator[str]:
    for data in (request.GET, request.POST):
        for field, values in data.lists():
            if field not in TEXT_FIELDS:
                yield from (str(value) for value in values)


@cache
def find_sql() -> str:
    selects = [
        "select a.id, t.project_id from ledger_attempt a"
        " join ledger_task t on t.id = a.task_id where a.id = any(%(ids)s)"
    ]
    for app in ("ledger", "retries", "dashboard"):
        for model in apps.get_app_config(app).get_models():
            names = {field.attname for field in model._meta.concrete_fields}
            column = COLUMNS.keys() & names
            if column and model._meta.managed and isinstance(model._meta.pk, UUIDField):
                table = model._meta.db_table
                project = COLUMNS[column.pop()]
                selects.append(f"select id, {project} from {table} where id = any(%(ids)s)")
    return " union all ".join(selects)
