"""Decide who may do what: `may`, for pages, the API and the admin alike.

The calls that agents make all the time look their token up in their own statement; `holds_scope`
is `may` for a token as an SQL condition. No other module reads scopes, permissions or roles.
"""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from django.db.models import OuterRef, Q

from ledger.authorization.principal import Principal
from ledger.authorization.roles import Role, role_needed
from ledger.database import sql

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
    from django.db.models import QuerySet

# the verb of every person who may sign in to the pages
ENTER = "enter"
# one row with the roles of the person whose id is the SQL `user`
# while a project moves to another installation, its members only read it
ROLES = f"""select array_agg(m.project_id order by p.name) as project_ids,
    array_agg(p.name order by p.name) as project_names, array_agg(
        case when p.moving_since is null then m.role else '{Role.VIEWER}' end order by p.name
    ) as roles
    from ledger_membership m join ledger_project p on p.id = m.project_id
    where m.user_id = {{user}}""".format
ROLES_OF_USER = ROLES(user="%(user)s")


class ProjectRole(NamedTuple):
    """The role that a person has in a project."""

    project_id: UUID
    project_name: str
    role: Role


def may(
    actor: "Principal | AbstractBaseUser | AnonymousUser", verb: str, project_id: UUID | None = None
) -> bool:
    """Return whether a token or a person may do something, in a project if one is named.

    A token's verbs are its scopes, such as `tasks:work`, within its own project; the empty verb is
    what every token may do. A person's verbs are Django's permissions, such as `ledger.add_token`:
    the role in a project gives them there, and what an account was given in the admin holds in
    every project. Without a project, a person needs them in every project.
    """
    if isinstance(actor, Principal):
        return verb in ("", *actor.scopes) and project_id in (None, actor.project_id)
    projects = projects_where(actor, verb)
    if projects is None:
        return True
    if verb == ENTER and project_id is None:
        return bool(projects)
    return project_id in projects


def projects_where(person: "AbstractBaseUser | AnonymousUser", verb: str) -> frozenset[UUID] | None:
    """Return the ids of the projects in which a person may do something, or None for all."""
    if not person.is_active:
        return frozenset()
    if may_everywhere(person, verb):
        return None
    has_verb = partial(covers, verb=verb)
    return frozenset(each.project_id for each in roles_of(person) if has_verb(each.role))


def may_everywhere(person: "AbstractBaseUser | AnonymousUser", verb: str) -> bool:
    if not getattr(person, "is_staff", False):
        return False
    if is_all_mighty(person):
        return True
    if verb == ENTER:
        # staff without any permission still see the pages that need none
        return not roles_of(person) or bool(person.get_all_permissions())  # type: ignore[union-attr]
    return bool(person.has_perm(verb))  # type: ignore[union-attr]


def is_all_mighty(person: "AbstractBaseUser | AnonymousUser") -> bool:
    return bool(getattr(person, "is_staff", False) and getattr(person, "is_superuser", False))


def covers(role: Role, verb: str) -> bool:
    needed = role_needed(verb)
    return verb == ENTER or (needed is not None and role.rank >= needed.rank)


def roles_of(person: "AbstractBaseUser | AnonymousUser") -> list[ProjectRole]:
    """Return a person's roles by the names of their projects; superusers need none."""
    # The roles are read once for each request.
    if person.pk is None or is_all_mighty(person):
        return []
    known: list[ProjectRole] | None = getattr(person, "project_roles", None)
    if known is None:
        known = read_roles(sql.run(ROLES_OF_USER, user=person.pk)[0])
        person.project_roles = known  # type: ignore[union-attr]
    return known


def read_roles(row: sql.Row) -> list[ProjectRole]:
    columns = (row[name] or () for name in ("project_ids", "project_names", "roles"))
    return [ProjectRole(id, name, Role(role)) for id, name, role in zip(*columns, strict=True)]


def holds_scope(token: str, verb: str) -> str:
    """Return the condition that a token's row may do what the SQL `verb` names: `may` in SQL."""
    return f"({verb} = '' or {verb} = any({token}.scopes))"


def people_who_may(verb: str, project_id: "UUID | OuterRef") -> "QuerySet[User]":
    from django.contrib.auth.models import User

    member = Q(memberships__project=project_id, memberships__role__in=roles_that_may(verb))
    given = User.objects.with_perm(verb, backend="django.contrib.auth.backends.ModelBackend")
    own = Q(is_staff=True, pk__in=given.values("pk"))
    people = User.objects.filter(member | own, is_active=True)
    return people.order_by("username").distinct()


def roles_that_may(verb: str) -> list[Role]:
    return [role for role in Role if covers(role, verb)]


def instance_accounts() -> "QuerySet[User]":
    from django.contrib.auth.models import User

    staff = User.objects.filter(is_staff=True, is_active=True)
    given = Q(is_superuser=True) | ~Q(user_permissions=None) | ~Q(groups__permissions=None)
    return staff.filter(given).order_by("pk").values("pk").distinct()  # type: ignore[return-value]
