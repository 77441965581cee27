"""Ask a language model for tool calls, at any endpoint that speaks OpenAI's chat completions.

The package `openai` is an extra of its own and takes long to import, so it is imported when the
first model is asked.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from ledger.secrets.redaction import redacted, stripped
from ledger.sessions.tool_calls import ToolCall
from ledger.values.text import truncate

LOCAL = {"localhost", "127.0.0.1", "::1"}
REASON_LENGTH = 300
MAX_RETRIES = 2  # after a lost connection, 429 or a server error
# A response with more calls is nonsense.
MOST_CALLS = 64
MOST_BYTES = 4 * 1024 * 1024
NO_KEY = "none"


class ModelFailed(Exception):
    """The model did not answer, or none of its answers could be used."""


class Nonsense(Exception):
    """The model answered, but not with tool calls that can be read."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """One response: its text and its tool calls, which may be none."""

    text: str
    calls: tuple[ToolCall, ...]

    @property
    def message(self) -> dict[str, Any]:
        # The next request repeats the response in this form.
        made = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in self.calls
        ]
        return {"role": "assistant", "content": self.text or None} | (
            {"tool_calls": made} if made else {}
        )


class ChatModel:
    """A model behind an address such as `http://127.0.0.1:11434/v1`.

    Raises ModelFailed without an address and a model: nothing is sent to a host that the settings
    do not name.
    """

    def __init__(
        self, *, url: str, model: str, key: str = "", timeout_s: float = 60, max_retries: int = 2
    ) -> None:
        if urlsplit(url).scheme not in {"http", "https"} or not model:
            raise ModelFailed(
                "No language model is configured: set TENFOUR_LLM_URL and TENFOUR_LLM_MODEL."
            )
        try:
            self._openai = import_module("openai")
            self._http = import_module("httpx2")
        except ImportError as error:
            raise ModelFailed(
                "The package openai is not installed: install the list requirements/llm.lock."
            ) from error
        self.url = url.rstrip("/")
        self.model = model
        self._key = key
        self._timeout_s = timeout_s
        # A proxy from the environment must not be used for this machine.
        is_local = urlsplit(url).hostname in LOCAL
        self._client = self._openai.OpenAI(
            base_url=self.url,
            api_key=key or NO_KEY,
            timeout=timeout_s,
            max_retries=max_retries,
            http_client=self._openai.DefaultHttpx2Client(trust_env=not is_local),
        )

    def ask(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> ModelAnswer:
        """Return the model's next response.

        The client repeats a request that found no connection, 408, 409, 429 or a server error.
        Raises ModelFailed when that did not help, and Nonsense for a response that can't be read.
        """
        errors = self._openai
        try:
            with self._client.chat.completions.with_streaming_response.create(
                model=self.model, messages=list(messages), tools=list(tools)
            ) as response:
                body = self._read_body(response.iter_bytes())
        except (errors.APITimeoutError, self._http.TimeoutException) as error:
            raise ModelFailed(f"{self.url} did not answer in time.") from error
        except errors.APIStatusError as error:
            raise ModelFailed(
                f"{self.url} answered {error.status_code}: {self._excerpt(error.response.text)}"
            ) from error
        except (errors.OpenAIError, self._http.HTTPError) as error:
            cause = error.__cause__ or error
            raise ModelFailed(f"{self.url} did not answer: {self._excerpt(str(cause))}") from error
        try:
            message = json.loads(body)["choices"][0]["message"]
            calls = tuple(read_calls(message.get("tool_calls")))
            return ModelAnswer(read_text(message.get("content")), calls)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise Nonsense(f"the response has no message: {self._excerpt(body)}") from error

    def _read_body(self, chunks: Iterator[bytes]) -> str:
        # The client's timeout is for each piece alone, not for the whole body.
        until = time.monotonic() + self._timeout_s
        received = bytearray()
        for chunk in chunks:
            received += chunk
            if time.monotonic() > until:
                raise ModelFailed(f"{self.url} did not answer in time.")
            if len(received) > MOST_BYTES:
                raise Nonsense(f"the response has more than {MOST_BYTES} bytes.")
        return received.decode(errors="replace")

    def close(self) -> None:
        self._client.close()

    def _excerpt(self, text: str) -> str:
        # What an endpoint said may hold secrets.
        text = text.replace(self._key, "[redacted]") if self._key else text
        text = redacted(stripped(text))
        return truncate(" ".join(text.split()), REASON_LENGTH) or "nothing"


def configured_model() -> ChatModel:
    """Return the model that the settings name; raises ModelFailed without one."""
    known = settings.TENFOUR
    return ChatModel(
        url=known["LLM_URL"],
        model=known["LLM_MODEL"],
        key=settings.LLM_KEY,
        timeout_s=known["LLM_TIMEOUT_SECONDS"],
        max_retries=MAX_RETRIES,
    )


def read_calls(given: Any) -> Iterator[ToolCall]:
    if given is None:
        return
    if not isinstance(given, list) or len(given) > MOST_CALLS:
        raise Nonsense(f"its tool calls are not a list of at most {MOST_CALLS}.")
    for place, each in enumerate(given, 1):
        function = each.get("function") if isinstance(each, Mapping) else None
        if not isinstance(function, Mapping):
            raise Nonsense(f"call {place} names no tool.")
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise Nonsense(f"call {place} names no tool.")
        id = each.get("id")
        arguments = read_arguments(place, name, function)
        yield ToolCall(name, arguments, id if isinstance(id, str) and id else f"call_{place}")


def read_arguments(place: int, name: str, function: Mapping[str, Any]) -> dict[str, Any]:
    given = function.get("arguments")
    try:
        value = json.loads(given) if isinstance(given, str) and given.strip() else given or {}
    except (ValueError, RecursionError) as error:
        raise Nonsense(f"call {place} ({name[:64]}): the arguments are not JSON.") from error
    if not isinstance(value, dict):
        raise Nonsense(f"call {place} ({name[:64]}): the arguments are not an object.")
    return value


def read_text(content: Any) -> str:
    # Some endpoints answer with a list of parts.
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""
