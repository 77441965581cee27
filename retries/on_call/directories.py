"""Read who may answer a project's escalations: the people, their groups, roles and rotas."""

from uuid import UUID

from ledger.authorization.permissions import people_who_may
from ledger.models import Membership
from retries.escalations.assignment import ANSWER
from retries.models import Rota
from retries.on_call.rotas import Schedule, parse_shift
from retries.on_call.steps import Directory


def read_directory(project_id: UUID) -> Directory:
    # A group is one of the identity provider's that gives a role in the project.
    people = list(people_who_may(ANSWER, project_id).values_list("username", flat=True))
    groups: dict[str, list[str]] = {}
    members = Membership.objects.filter(project=project_id, user__username__in=people)
    for name, role, group in members.order_by("user__username").values_list(
        "user__username", "role", "group"
    ):
        groups.setdefault(f"role:{role}", []).append(name)
        if group:
            groups.setdefault(f"group:{group}", []).append(name)
    rotas = Rota.objects.filter(project=project_id)
    return Directory(people, {each.name: read_schedule(each) for each in rotas}, groups)


def read_schedule(rota: Rota) -> Schedule:
    shifts = tuple(parse_shift(line) for line in rota.shifts)
    return Schedule(rota.timezone, shifts, tuple(rota.fallback))
