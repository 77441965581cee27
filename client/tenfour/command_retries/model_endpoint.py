"""Ask a language model for JSON, through any endpoint that speaks OpenAI's chat completions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from tenfour.redaction.masking import masked
from tenfour.settings import NotConfigured, Settings

TIMEOUT_S = 30.0
ANSWER_BYTES = 1024 * 1024
REASON_LENGTH = 300


class ModelError(Exception):
    """The model did not respond, or not with the requested JSON."""


class ModelEndpoint:
    """A model behind an address such as `http://127.0.0.1:11434/v1`.

    Without `url` and `key`, reads OPENAI_BASE_URL and OPENAI_API_KEY. There is no default address:
    nothing is sent to a host that you did not name.
    """

    def __init__(
        self,
        model: str,
        *,
        url: str | None = None,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.model = model
        self.url = (url or os.environ.get("OPENAI_BASE_URL", "")).strip().rstrip("/")
        self._key = (key if key is not None else os.environ.get("OPENAI_API_KEY", "")).strip()
        self._timeout_s = timeout_s
        if urlsplit(self.url).scheme not in {"http", "https"}:
            raise NotConfigured(
                "The address of the model is missing or not a web address.",
                hint="Set OPENAI_BASE_URL or pass url=, for example http://127.0.0.1:11434/v1",
            )

    def ask(self, messages: Sequence[Mapping[str, str]], *, name: str, schema: Any) -> Any:
        """Return the object that the model answers with, in one request; raises ModelError.

        The endpoint is asked for JSON of this schema. One that ignores that may wrap the object in
        text or in a code fence. The caller checks the object: no endpoint is sure to obey.
        """
        body = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": schema},
            },
        }
        status, text = self._post(json.dumps(body).encode())
        if status != 200:
            raise ModelError(f"{self.url} answered {status}: {self._excerpt(text)}")
        try:
            content = json.loads(text)["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise ModelError(f"{self.url} answered with no message.") from error
        found = find_object(_text_of(content))
        if found is None:
            raise ModelError(f"The model answered with no JSON: {self._excerpt(str(content))}")
        return found

    def _post(self, content: bytes) -> tuple[int, str]:
        import httpx2

        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        # A proxy from the environment must not be used for this machine. Redirects are not
        # followed: the key is for this address alone.
        trust_env = not Settings(self.url, "").is_local
        until = time.monotonic() + self._timeout_s
        try:
            with (
                httpx2.Client(timeout=self._timeout_s, trust_env=trust_env) as http,
                http.stream(
                    "POST", f"{self.url}/chat/completions", content=content, headers=headers
                ) as response,
            ):
                received = bytearray()
                for chunk in response.iter_bytes():
                    received += chunk
                    if len(received) > ANSWER_BYTES or time.monotonic() > until:
                        raise ModelError(f"{self.url} did not finish its answer.")
                return response.status_code, received.decode(errors="replace")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise ModelError(f"{self.url} did not answer: {reason}") from error

    def _excerpt(self, text: str) -> str:
        text = text.replace(self._key, "[redacted]") if self._key else text
        return masked(" ".join(text.split()), os.environ)[:REASON_LENGTH] or "nothing"


def find_object(text: str) -> dict[str, Any] | None:
    """Return the first JSON object in a text, or None.

    >>> find_object('Sure!\\n```json\\n{"args": ["list"]}\\n```'), find_object("{no}")
    ({'args': ['list']}, None)
    """
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        return found if isinstance(found, dict) else None
    return None


def _text_of(content: Any) -> str:
    """Return a message's text; some endpoints answer with a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
