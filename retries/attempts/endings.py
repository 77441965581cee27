"""A command's result and its source (pure)."""

from enum import StrEnum


class SeenBy(StrEnum):
    """The source of a check's result: the program that ran it, an agent's hook, or the agent."""

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
