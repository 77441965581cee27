"""Define the calls of the eight ledger tools and their answers (pure)."""

from dataclasses import dataclass, field
from typing import Any

from ledger.errors import Refusal


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a ledger tool, as a model or a tracker makes it."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The sentence that answers a call; `done` is false if the call could not be carried out.

    Such an answer is soft: the model can act on it, and the other calls of its response stay.
    """

    name: str
    text: str
    done: bool = True
    id: str = ""


class ToolRefused(Refusal):
    """Tool call refused"""

    code = "tool_call_refused"
    hint = "No call of this response took effect. Correct the call and send all of them again."

    def __init__(self, index: int, name: str, detail: str) -> None:
        pointer = f"/calls/{index}"
        super().__init__(
            f"Call {index + 1} ({name}): {detail}", errors=[{"pointer": pointer, "detail": detail}]
        )
        self.index = index
        self.name = name
        self.reason = detail
