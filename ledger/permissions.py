"""Decide who may do what: `may`, for pages, the API and the admin alike.

The calls that agents make all the time look their token up in their own statement; `holds_scope`
is `may` for a token as an SQL condition. No other module reads scopes or permissions.
"""

from typing import TYPE_CHECKING
from uuid import UUID

from ledger.principal import Principal

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

# the verb of every person who may sign in to the pages
ENTER = "enter"


def may(
    actor: "Principal | AbstractBaseUser | AnonymousUser",
    verb: str,
    project_id: UUID | None = None,
) -> bool:
    """Return whether a token or a person may do something, in a project if one is named.

    A token's verbs are its scopes, such as `tasks:work`, within its own project; the empty verb is
    what every token may do. A person's verbs are Django's permissions, such as `ledger.add_token`;
    until people have roles, they hold in every project.
    """
    if isinstance(actor, Principal):
        return verb in ("", *actor.scopes) and project_id in (None, actor.project_id)
    if not (actor.is_active and getattr(actor, "is_staff", False)):
        return False
    return verb == ENTER or bool(actor.has_perm(verb))  # type: ignore[attr-defined]


def holds_scope(token: str, verb: str) -> str:
    """Return the condition that a token's row may do what the SQL `verb` names: `may` in SQL."""
    return f"({verb} = '' or {verb} = any({token}.scopes))"
