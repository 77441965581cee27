"""Tools: arguments, the REST operation whose scope and rules they share, and replies in words."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from pydantic import BaseModel
from pydantic import ValidationError as ArgumentError

from config.api import MESSAGES, ROUTERS
from ledger.api.auth import BearerAuth, PrincipalAuth
from ledger.api.responses import JSON
from ledger.authorization.permissions import may
from ledger.authorization.principal import Principal
from retries.api.attempts import MOST_RESULT_BYTES

# Looks the token up; the operation that a tool performs checks its scope.
identify = PrincipalAuth("", body_bytes=MOST_RESULT_BYTES)

# Operations with these scopes act on an agent's own queue.
AGENT_SCOPES = {"tasks:work", "instructions:ack"}

AUTH: dict[Callable[..., Any], BearerAuth] = {
    operation.view_func: operation.auth_param
    for router in ROUTERS
    for view in router.path_operations.values()
    for operation in view.operations
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A tool's result: what happened and what to do next, and the data.

    Claude Code and Codex show their model the JSON object alone, other clients the text alone. So
    `message` is in both, and `shown` is what a reader of the text needs of the data.
    """

    message: str
    data: dict[str, Any] = field(default_factory=dict)
    shown: str = ""
    is_error: bool = False

    def as_result(self) -> dict[str, Any]:
        return {
            "content": [{"type": "text", "text": join(self.shown, self.message)}],
            "structuredContent": {"message": self.message} | self.data,
            "isError": self.is_error,
        }


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool; `run` gets a request whose `auth` is what the operation expects, and `given`."""

    run: Callable[[Any, Any], Reply]
    operation: Callable[..., Any]
    title: str
    is_read_only: bool = False
    is_idempotent: bool = False
    # The arguments contain a program's output, which is cleaned, so that no report is lost.
    is_cleaned: bool = False

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def arguments(self) -> type[BaseModel]:
        found: type[BaseModel] = self.run.__annotations__["given"]
        return found

    @property
    def auth(self) -> BearerAuth:
        return AUTH[self.operation]

    def is_usable_by(self, principal: Principal) -> bool:
        # A token that can't call the tool doesn't see it.
        scope = self.auth.scope
        is_own = scope in AGENT_SCOPES
        return may(principal, scope) and (principal.agent_id is not None or not is_own)

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": " ".join((self.run.__doc__ or "").split()),
            "inputSchema": input_schema(self.arguments),
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.is_read_only,
                "destructiveHint": False,
                "idempotentHint": self.is_idempotent or self.is_read_only,
                "openWorldHint": False,
            },
        }

    def call(self, request: HttpRequest, arguments: dict[str, Any]) -> Reply:
        request.auth = self.auth(request)  # type: ignore[attr-defined]
        request.META["HTTP_ACCEPT"] = JSON  # some operations also respond with plain text
        try:
            return self.run(request, self.arguments.model_validate(arguments))
        except ArgumentError as error:
            return self.refuse_arguments(error)

    def refuse_arguments(self, error: ArgumentError) -> Reply:
        errors = [
            {
                "argument": ".".join(map(str, each["loc"])),
                "detail": MESSAGES.get(each["type"], each["msg"]),
            }
            for each in error.errors(include_url=False)
        ]
        lines = [f"- {each['argument']}: {each['detail']}" for each in errors]
        text = f"The arguments of {self.name} are not valid. Fix them and call it again:"
        return Reply("\n".join([text, *lines]), {"errors": errors}, is_error=True)


def input_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    properties = {name: plain_schema(each) for name, each in schema["properties"].items()}
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a property's schema without its title, and without null, which means 'not set'."""
    kinds = [each for each in schema.get("anyOf", []) if each.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key not in ("title", "anyOf")}
    if rest.get("default", 0) in (None, ""):
        del rest["default"]
    return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})


def perform(operation: Callable[..., HttpResponse], request: HttpRequest, *args: Any) -> Any:
    """Return the JSON object that a REST operation responds with."""
    # A tool calls the operation's function itself, so that every rule is written once.
    return json.loads(operation(request, *args).content)


def select(data: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return these members of an object, without the empty ones."""
    return {name: data[name] for name in names if data.get(name) not in (None, "", [], {})}


def join(*parts: str) -> str:
    """Return the parts of a text as paragraphs, without the empty ones."""
    return "\n\n".join(part for part in parts if part)
