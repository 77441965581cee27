"""Define what turns messages into tasks: a tracker, its batch and its toolbox (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.sessions.message_parts import Part
from ledger.sessions.tool_calls import ToolAnswer, ToolCall


@dataclass(frozen=True, slots=True)
class BatchMessage:
    """A message: its place in the session, which begins at 1, its role and its parts."""

    order: int
    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task that the session has already; `messages` are the orders of its messages."""

    order: int
    description: str
    state: str
    progress: tuple[str, ...] = ()
    messages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of one run of a tracker.

    Ledger tools name messages by their index in `messages`, which begins at 0, and tasks by their
    order. `earlier` are the last few messages before the batch, and `later` the first few behind it
    if there are any yet; they are for context, and no tool can name them.
    """

    messages: tuple[BatchMessage, ...]
    tasks: tuple[KnownTask, ...] = ()
    earlier: tuple[BatchMessage, ...] = ()
    preferences: tuple[str, ...] = ()
    later: tuple[BatchMessage, ...] = ()


class ToolBox(Protocol):
    """The ledger tools of one batch."""

    def call_all(self, calls: Sequence[ToolCall]) -> list[ToolAnswer]:
        """Run all calls of one response in one transaction; return an answer for each.

        Raises ToolRefused after rolling back if a tool is unknown, has wrong arguments or fails.
        With `finish` among the calls, the batch succeeds in the same transaction: if the worker is
        killed afterwards, its messages are not processed again. A tracker that needs one response
        ends it with `finish`.
        """
        ...

    def list_tasks(self) -> tuple[KnownTask, ...]: ...


class Tracker(Protocol):
    """Turns the messages of a batch into calls of the ledger tools."""

    def respond(self, batch: Batch, ledger: ToolBox) -> None:
        """Make the calls that the batch asks for, one `call_all` for each response.

        An error that it raises makes the batch fail, with the error's text as the reason. What an
        earlier `call_all` did stays.
        """
        ...
