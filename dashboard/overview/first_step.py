"""The step that Overview embeds while there is nothing else to show: connecting an agent."""

from dataclasses import dataclass, replace
from uuid import UUID

from dashboard.connect import creation, queries
from dashboard.connect.light import Arrival, Light, read_light
from dashboard.connect.views import WAYS, choose_project
from dashboard.frame.access import may_open
from dashboard.frame.rendering import Visit
from dashboard.overview.queries import find_waiting_token
from ledger.models import Project, Token


@dataclass(frozen=True, slots=True)
class FirstStep:
    """The form that creates an agent's token, or the light of the token that it created."""

    new_id: UUID
    name: str
    project: Project
    projects: list[Project]
    known: list[str]
    may_create: bool
    people: list[str]
    token: Token | None
    arrival: Arrival | None
    light: Light | None
    way: str = WAYS[0][0]
    ways: tuple[tuple[str, str], ...] = WAYS
    error: str = ""


def read_first_step(visit: Visit) -> FirstStep:
    project = choose_project(visit)
    known = queries.list_names(project)
    may_create = may_open(visit.request.user, "connect_token")
    token = find_waiting_token(visit.scope.project) if may_create else None
    arrival = queries.read_arrival(token, now=visit.now) if token else None
    return FirstStep(
        new_id=creation.new_id(visit.now),
        name=queries.suggest_name(known),
        project=project,
        projects=list(visit.scope.projects),
        known=known,
        may_create=may_create,
        people=[] if may_create else queries.list_people(project),
        token=token,
        arrival=arrival,
        light=read_own_light(arrival, visit) if arrival else None,
    )


def read_own_light(arrival: Arrival, visit: Visit) -> Light:
    # Overview links to the lines to copy instead of offering them.
    light = read_light(arrival, now=visit.now)
    return replace(light, offer="") if light.offer in ("check", "export") else light
