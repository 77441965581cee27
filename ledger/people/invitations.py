"""Invite people to a project by a link that works once."""

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction

from ledger import journal
from ledger.authorization.roles import Role
from ledger.journal import Kind, Stamp
from ledger.models import Invitation, Membership, Project
from ledger.people.members import add_member

# how long a link can work, in days
DAYS = (1, 7)


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


@transaction.atomic
def invite(
    project: Project, role: Role, *, email: str = "", days: int = DAYS[-1], stamp: Stamp
) -> tuple[Invitation, str]:
    """Create an invitation and return it with its secret, which is not stored."""
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        project=project,
        role=role,
        email=email,
        digest=digest_of(secret),
        created_by=stamp.actor.name,
        created_at=stamp.at,
        expires_at=stamp.at + timedelta(days=days),
    )
    record_event(Kind.INVITATION_CREATED, invitation, stamp=stamp)
    return invitation, secret


@transaction.atomic
def invite_again(invitation: Invitation, *, stamp: Stamp) -> tuple[Invitation, str] | None:
    """Replace an invitation by one with a new link, or return None if it was used or revoked.

    The old link stops working; the new one has the old one's lifetime.
    """
    if not revoke_invitation(invitation, stamp=stamp):
        return None
    return invite(
        invitation.project,
        Role(invitation.role),
        email=invitation.email,
        days=(invitation.expires_at - invitation.created_at).days,
        stamp=stamp,
    )


def find_invitation(secret: str, *, stamp: Stamp) -> Invitation | None:
    """Return the invitation of a link, unless it was used, was revoked or has expired."""
    rows = Invitation.objects.pending().select_related("project")
    return rows.filter(digest=digest_of(secret), expires_at__gt=stamp.at).first()


@transaction.atomic
def revoke_invitation(invitation: Invitation, *, stamp: Stamp) -> bool:
    """Revoke an invitation; return False if it was used or revoked before."""
    rows = Invitation.objects.pending().filter(pk=invitation.pk)
    if not rows.update(revoked_at=stamp.at):
        return False
    record_event(Kind.INVITATION_REVOKED, invitation, stamp=stamp)
    return True


@transaction.atomic
def accept(invitation: Invitation, user: User, *, stamp: Stamp) -> Membership | None:
    """Make a person a member by an invitation, or return None if it no longer works."""
    rows = Invitation.objects.pending().filter(pk=invitation.pk, expires_at__gt=stamp.at)
    # one statement, so that only one of two people with the link gets in
    if not rows.update(accepted_at=stamp.at, accepted_by=user):
        return None
    record_event(Kind.INVITATION_ACCEPTED, invitation, stamp=stamp)
    return add_member(user, invitation.project, Role(invitation.role), stamp=stamp)


def record_event(kind: Kind, invitation: Invitation, *, stamp: Stamp) -> None:
    data = {"role": str(invitation.role), "for": invitation.email}
    given = {name: value for name, value in data.items() if value}
    journal.record_about("invitation", invitation, kind, stamp=stamp, data=given)
