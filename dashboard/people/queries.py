"""Read the people of a project: members, invitations and signed-in browsers."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, Max, Q, QuerySet

from ledger.models import Invitation, Membership, Project, SignIn
from ledger.people.browsers import describe_browser, signed_in
from ledger.permissions import instance_accounts
from ledger.roles import Role

LISTED = 200
# an expired invitation stays listed for so long
EXPIRED_SHOWN = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ListedPerson:
    """A member of the project, or an account that sees every project."""

    user: User
    member: Membership | None
    last_seen: datetime | None
    is_you: bool
    is_last_admin: bool

    @property
    def name(self) -> str:
        return self.user.get_full_name() or self.user.get_username()

    @property
    def is_admin(self) -> bool:
        """Whether the person manages the members."""
        if self.member:
            return self.member.role == Role.ADMIN
        return self.user.is_superuser

    @property
    def method(self) -> str:
        return "Password" if self.user.has_usable_password() else "Single sign-on"


@dataclass(frozen=True, slots=True)
class ListedBrowser:
    """A browser in which someone is signed in."""

    row: SignIn
    is_this: bool

    @property
    def name(self) -> str:
        return describe_browser(self.row.user_agent)

    @property
    def person(self) -> str:
        return self.row.user.get_full_name() or self.row.user.get_username()


def select_people(members: Iterable[int] | QuerySet[Any, Any]) -> QuerySet[User]:
    """Return these members and the accounts that see all projects."""
    return User.objects.filter(Q(pk__in=members) | Q(pk__in=instance_accounts()), is_active=True)


def members_of(project: Project) -> QuerySet[Any, Any]:
    """Return the members of a project as a query of their users' ids."""
    return Membership.objects.filter(project=project).values("user")


def list_people(project: Project, *, you: int | None) -> list[ListedPerson]:
    """Return the members of a project, admins first, and the accounts that see all projects."""
    members = {
        row.user_id: row
        for row in Membership.objects.filter(project=project)
        .select_related("user")
        .order_by("user__username")[:LISTED]
    }
    users: QuerySet[Any] = select_people(list(members))
    admins = [each for each in members.values() if each.role == Role.ADMIN]
    rows = [
        ListedPerson(
            user,
            members.get(user.pk),
            max(filter(None, (user.seen, user.last_login)), default=None),
            user.pk == you,
            len(admins) == 1 and admins[0].user_id == user.pk,
        )
        for user in users.annotate(seen=Max("sign_ins__last_seen_at")).order_by("username")
    ]
    return sorted(rows, key=lambda row: -Role(row.member.role).rank if row.member else 1)


def list_invitations(project: Project, *, now: datetime) -> list[Invitation]:
    """Return the open invitations of a project, and those that expired lately."""
    rows = Invitation.objects.pending().filter(project=project)
    return list(rows.filter(expires_at__gt=now - EXPIRED_SHOWN).order_by("-id")[:LISTED])


def list_signed_in(people: list[ListedPerson], *, now: datetime) -> list[tuple[ListedPerson, int]]:
    """Return the other members who are signed in, each with the number of browsers."""
    others = {each.user.pk: each for each in people if each.member and not each.is_you}
    rows = signed_in(now).filter(user__in=list(others)).order_by().values_list("user")
    counts: dict[int, int] = dict(rows.annotate(n=Count("pk")))
    return [(each, counts[pk]) for pk, each in others.items() if pk in counts]


def list_browsers(
    users: list[int], *, session_key: str | None, now: datetime
) -> list[ListedBrowser]:
    """Return the browsers in which these people are signed in, last used first."""
    rows = signed_in(now).filter(user__in=users).select_related("user")
    return [
        ListedBrowser(row, row.session_key == session_key)
        for row in rows.order_by("-last_seen_at", "-id")[:LISTED]
    ]
