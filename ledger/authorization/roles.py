"""The roles of a project's members, and the role that each permission needs (pure)."""

from django.db.models import TextChoices


class Role(TextChoices):
    """A member's role in a project; each includes the permissions of the ones before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


# the apps whose permissions a role can give; accounts and the like are the instance's own
APPS = {"ledger", "retries", "dashboard"}
# nouns of the instance, not of a project
INSTANCE_NOUNS = {"project", "clockrun", "idempotencykey"}
# the members of a project, the keys to it, and the rules for its tasks
ADMIN_NOUNS = {
    "membership",
    "invitation",
    "token",
    "channel",
    "retrypolicy",
    "acktarget",
    "tasktarget",
    "contextexperiment",
    "escalationpolicy",
    "rota",
}
# nouns that a viewer does not see: the holders of keys, and the people who may still join
VIEW_ROLES = {"token": Role.OPERATOR, "invitation": Role.ADMIN}


def role_needed(verb: str) -> Role | None:
    """Return the lowest role that has a permission, or None if no role has it.

    >>> role_needed("ledger.change_task")
    Role.OPERATOR
    >>> role_needed("ledger.add_project") is None
    True
    """
    app, _, codename = verb.partition(".")
    action, _, noun = codename.partition("_")
    if app not in APPS or noun in INSTANCE_NOUNS:
        return None
    if action == "view":
        return VIEW_ROLES.get(noun, Role.VIEWER)
    return Role.ADMIN if noun in ADMIN_NOUNS else Role.OPERATOR
