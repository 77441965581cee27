"""Turn the messages of a batch into tasks with a language model."""

from collections.abc import Callable
from typing import Any

from ledger.sessions.tool_schemas import describe_tools
from retries.trackers.chat_model import (
    ChatModel,
    ModelAnswer,
    ModelFailed,
    Nonsense,
    configured_model,
)
from retries.trackers.llm_prompt import NUDGE, SYSTEM, UNUSABLE, describe_batch, describe_tasks
from retries.trackers.tracker import Batch, ToolBox

MOST_RESPONSES = 6
FINISH = "finish"


class LlmTracker:
    """The tracker `llm`: at most six responses of a model, each of them one transaction."""

    def __init__(self, connect: Callable[[], ChatModel] = configured_model) -> None:
        self.connect = connect

    def respond(self, batch: Batch, ledger: ToolBox) -> None:
        """Ask the model until it finishes; raises ModelFailed or ToolRefused."""
        # A response that can't be read is answered with the reason. If none of six can be read, or
        # if the ledger refuses a call, the batch fails.
        model = self.connect()
        try:
            Conversation(model, batch, ledger).run()
        finally:
            model.close()


class Conversation:
    """The exchange between the tracker and the model about one batch."""

    def __init__(self, model: ChatModel, batch: Batch, ledger: ToolBox) -> None:
        self.model = model
        self.tools = [{"type": "function", "function": tool} for tool in describe_tools()]
        self.ledger = ledger
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": describe_batch(batch)},
        ]
        self.problem = ""
        self.has_acted = False

    def run(self) -> None:
        for _ in range(MOST_RESPONSES):
            if self.take_response():
                return
        if not self.has_acted:
            raise ModelFailed(
                f"None of the model's {MOST_RESPONSES} responses could be used. The last one: "
                f"{self.problem}"
            )

    def take_response(self) -> bool:
        """Request one response and act on it; return whether the model has finished."""
        try:
            answer = self.model.ask(self.messages, self.tools)
        except Nonsense as nonsense:
            self.problem = str(nonsense)
            self.say(UNUSABLE.format(reason=nonsense))
            return False
        if answer.calls:
            return self.act(answer)
        if self.has_acted:
            return True  # it says in words that it is done
        self.problem = "it calls no tool."
        self.messages.append(answer.message)
        self.say(NUDGE)
        return False

    def act(self, answer: ModelAnswer) -> bool:
        """Run a response's calls and tell the model the results; return whether it has finished."""
        # All calls run in one transaction.
        answers = self.ledger.call_all(answer.calls)
        self.has_acted = True
        if any(call.name == FINISH for call in answer.calls):
            return True
        self.messages.append(answer.message)
        self.messages += [
            {"role": "tool", "tool_call_id": call.id, "content": told.text}
            for call, told in zip(answer.calls, answers, strict=True)
        ]
        self.say(f"The list now:\n{describe_tasks(self.ledger.list_tasks())}\n\n{NUDGE}")
        return False

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})
