"""Add, change and remove the members of a project."""

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from ledger import journal
from ledger.authorization.roles import Role
from ledger.errors import InvalidTransition
from ledger.journal import Kind, Stamp
from ledger.models import Membership, Project, SignIn
from ledger.models.project import DEFAULT
from ledger.people.browsers import end_browsers


def lock_member(member: Membership) -> Membership | None:
    """Return a member with its row locked, or None if it is gone."""
    # The project's admins are locked with it in one order: two admins who change each other at once
    # would deadlock otherwise.
    rows = Membership.objects.select_for_update(of=("self",)).select_related("user", "project")
    admins = Q(project=member.project_id, role=Role.ADMIN)
    locked = rows.filter(Q(pk=member.pk) | admins).order_by("pk")
    return next((row for row in locked if row.pk == member.pk), None)


def check_admin_remains(member: Membership) -> None:
    """Raise InvalidTransition if a project would have no admin without this locked member."""
    admins = Membership.objects.filter(project=member.project_id, role=Role.ADMIN)
    if member.role == Role.ADMIN and admins.count() == 1:
        raise InvalidTransition(
            f"{member.user} is the last admin of {member.project}. "
            "Make someone else an admin first.",
            current=Role.ADMIN.value,
            allowed=[],
        )


@transaction.atomic
def add_member(
    user: User, project: Project, role: Role, *, group: str = "", stamp: Stamp
) -> Membership:
    """Make a person a member, or raise the role of one; a role is never lowered."""
    member, is_new = Membership.objects.select_for_update().get_or_create(
        user=user,
        project=project,
        defaults={"role": role, "group": group, "added_by": stamp.actor.name},
    )
    if is_new:
        record_event(Kind.MEMBER_ADDED, member, stamp=stamp)
    elif Role(member.role).rank < role.rank:
        member.group = group
        set_role(member, role, stamp=stamp)
    return member


@transaction.atomic
def change_role(member: Membership, role: Role, *, stamp: Stamp) -> bool:
    """Change a member's role; return False if nothing changes.

    Raise InvalidTransition for the last admin.
    """
    row = lock_member(member)
    if row is None or row.role == role:
        return False
    check_admin_remains(row)
    row.group = ""
    set_role(row, role, stamp=stamp)
    return True


def set_role(member: Membership, role: Role, *, stamp: Stamp) -> None:
    before, member.role = member.role, role
    member.save(update_fields=["role", "group"])
    record_event(Kind.MEMBER_CHANGED, member, stamp=stamp, before=before)


@transaction.atomic
def remove_member(member: Membership, *, stamp: Stamp) -> bool:
    """Remove a member; return False if someone else did.

    Raise InvalidTransition for the last admin.
    """
    row = lock_member(member)
    if row is None:
        return False
    check_admin_remains(row)
    record_event(Kind.MEMBER_REMOVED, row, stamp=stamp)
    row.delete()
    return True


@transaction.atomic
def sign_out(member: Membership, *, keep: str | None, stamp: Stamp) -> int:
    """End all browsers of a member but the session `keep`; return how many there were."""
    rows = SignIn.objects.filter(user=member.user_id).exclude(session_key=keep or "")
    ended = end_browsers(rows)
    if ended:
        record_event(Kind.MEMBER_SIGNED_OUT, member, stamp=stamp, browsers=ended)
    return ended


def record_event(kind: Kind, member: Membership, *, stamp: Stamp, **data: str | int) -> None:
    person = {"person": member.user.get_username()[:64], "role": str(member.role)}
    group = {"group": member.group} if member.group else {}
    journal.record_about("member", member, kind, stamp=stamp, data=person | group | data)


def record_person_event(kind: Kind, user: User, *, stamp: Stamp) -> None:
    """Insert an event about a person's account in each of the person's projects."""
    projects = [row.pk for row in Project.objects.filter(membership__user=user).order_by("pk")]
    if not projects:
        projects = [row.pk for row in Project.objects.filter(name=DEFAULT)]
    for project_id in projects:
        journal.record(
            kind,
            subject_type="member",
            subject_id=project_id,
            project_id=project_id,
            stamp=stamp,
            data={"person": user.get_username()[:64]},
        )
