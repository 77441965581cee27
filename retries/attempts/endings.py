"""How a command ended, and who saw it (pure)."""

from enum import StrEnum


class SeenBy(StrEnum):
    """Who saw a check end: the program that ran it, an agent's hook, or the agent by its word."""

    CLIENT = "client"
    HOOK = "hook"
    AGENT = "agent"


class Unknown(StrEnum):
    """Why the exit code of a command is not known."""

    BACKGROUND = "background"
    MOVED_TO_BACKGROUND = "moved_to_background"
    INTERRUPTED = "interrupted"
    NOT_REPORTED = "not_reported"
    # the line that ran it ends with the code of something else, as in `make test | tail`
    HIDDEN = "hidden"
