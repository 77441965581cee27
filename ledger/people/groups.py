"""Grant people the roles of their groups at the identity provider, and revoke them."""

from collections.abc import Collection
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction

from ledger.authorization.roles import Role
from ledger.journal import Kind, Stamp
from ledger.models import Membership, Project
from ledger.people.members import add_member, record_event, set_role


@dataclass(frozen=True, slots=True)
class GroupRole:
    """The role in a project that a group gives."""

    group: str
    project: str
    role: Role


def parse_group_roles(text: str) -> list[GroupRole]:
    """Return the roles that a setting gives to groups; the settings check its form.

    >>> parse_group_roles("sre=billing:admin")
    [GroupRole(group='sre', project='billing', role=Role.ADMIN)]
    """
    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        group, _, given = part.rpartition("=")
        project, _, role = given.rpartition(":")
        found.append(GroupRole(group, project, Role(role)))
    return found


def roles_given(groups: Collection[str], known: list[GroupRole]) -> dict[str, GroupRole]:
    best: dict[str, GroupRole] = {}
    for each in known:
        current = best.get(each.project)
        if each.group in groups and (current is None or current.role.rank < each.role.rank):
            best[each.project] = each
    return best


@transaction.atomic
def follow_groups(user: User, given: dict[str, GroupRole], *, stamp: Stamp) -> None:
    # Roles given by people stay.
    rows = Membership.objects.select_for_update(of=("self",)).filter(user=user).exclude(group="")
    for row in rows.select_related("project", "user").order_by("pk"):
        wanted = given.get(row.project.name)
        if wanted is None:
            record_event(Kind.MEMBER_REMOVED, row, stamp=stamp)
            row.delete()
        elif row.role != wanted.role:
            row.group = wanted.group
            set_role(row, wanted.role, stamp=stamp)
    for project in Project.objects.filter(name__in=list(given)).order_by("name"):
        wanted = given[project.name]
        add_member(user, project, wanted.role, group=wanted.group, stamp=stamp)
