"""Decide who may do what."""

from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from ledger.principal import Principal


def may(
    actor: Principal | AbstractBaseUser | AnonymousUser, verb: str, project_id: UUID | None = None
) -> bool:
    """Return whether a token or a person may do something, in a project if one is named.

    A token's verbs are its scopes, such as `tasks:work`, within its own project. A person's verbs
    are Django's permissions, such as `ledger.add_token`; they hold in every project.
    """
    if isinstance(actor, Principal):
        return verb in actor.scopes and project_id in (None, actor.project_id)
    is_staff = actor.is_active and getattr(actor, "is_staff", False)
    return bool(is_staff and actor.has_perm(verb))  # type: ignore[union-attr]
