"""Read the people of a project: members, invitations and signed-in browsers."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Case, Count, IntegerField, Max, Q, QuerySet, When

from ledger.authorization.permissions import instance_accounts, people_who_may
from ledger.authorization.roles import Role
from ledger.models import Invitation, Membership, Project, SignIn
from ledger.people.browsers import describe_browser, signed_in

LISTED = 100
ADMINS_NAMED = 3
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
    return User.objects.filter(Q(pk__in=members) | Q(pk__in=instance_accounts()), is_active=True)


def members_of(project: Project) -> QuerySet[Any, Any]:
    return Membership.objects.filter(project=project).values("user")


def order_members(project: Project) -> QuerySet[Membership]:
    # Admins come first, then the names decide.
    rows = Membership.objects.filter(project=project).select_related("user")
    rank = Case(*(When(role=role, then=-role.rank) for role in Role), output_field=IntegerField())
    return rows.order_by(rank, "user__username")


def list_people(
    project: Project, listed: Iterable[Membership], *, with_all: bool, you: int | None
) -> list[ListedPerson]:
    """Return these members, and with `with_all` the accounts that see all projects."""
    members = {row.user_id: row for row in listed}
    chosen = Q(pk__in=list(members))
    if with_all:
        chosen |= Q(pk__in=instance_accounts()) & ~Q(pk__in=members_of(project))
    users: QuerySet[Any] = User.objects.filter(chosen, is_active=True)
    admins = order_members(project).filter(role=Role.ADMIN).values_list("user", flat=True)
    last_admin = found[0] if len(found := list(admins[:2])) == 1 else None
    rows = [
        ListedPerson(
            user,
            members.get(user.pk),
            max(filter(None, (user.seen, user.last_login)), default=None),
            user.pk == you,
            user.pk == last_admin,
        )
        for user in users.annotate(seen=Max("sign_ins__last_seen_at")).order_by("username")
    ]
    return sorted(rows, key=lambda row: -Role(row.member.role).rank if row.member else 1)


def name_admins(project: Project) -> list[str]:
    people = people_who_may("ledger.change_membership", project.pk)
    return [each.get_full_name() or each.get_username() for each in people[:ADMINS_NAMED]]


def list_invitations(project: Project, *, now: datetime) -> list[Invitation]:
    """Return a project's open invitations, and the recently expired ones."""
    rows = Invitation.objects.pending().filter(project=project)
    return list(rows.filter(expires_at__gt=now - EXPIRED_SHOWN).order_by("-id")[:LISTED])


def list_signed_in(
    project: Project, *, you: int | None, now: datetime
) -> list[tuple[ListedPerson, int]]:
    """Return the other members who are signed in, each with the number of browsers."""
    rows = signed_in(now).filter(user__in=members_of(project)).exclude(user=you)
    counts: dict[int, int] = dict(rows.order_by().values_list("user").annotate(n=Count("pk")))
    members = order_members(project).filter(user__in=list(counts), user__is_active=True)
    return [
        (ListedPerson(row.user, row, None, False, False), counts[row.user_id]) for row in members
    ]


def select_browsers(
    *, you: int | None, project: Project | None = None, now: datetime
) -> QuerySet[SignIn]:
    # Without a project, only the person's own browsers are listed.
    people = Q(user=you)
    if project:
        people |= Q(user__in=members_of(project))
    rows = signed_in(now).filter(people).select_related("user")
    return rows.order_by("-last_seen_at", "-id")


def count_others(*, you: int | None, session_key: str | None, now: datetime) -> int:
    return signed_in(now).filter(user=you).exclude(session_key=session_key).count()
