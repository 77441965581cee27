"""`POST /mcp`: the tools of the Model Context Protocol, without sessions or streams."""

import ipaddress
import json
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from config import __version__
from config.api import api
from config.mcp import catalog, protocol
from config.mcp.protocol import Headers, Message, ProtocolError
from config.mcp.tools import Reply, identify
from config.requests.json_bodies import clean_body, parse_body
from config.requests.outages import mark_logged
from ledger.api.auth import BearerAuth
from ledger.api.responses import JSON, encode
from ledger.errors import BadRequest, Invalid
from ledger.tracing.spans import continue_trace
from ledger.tracing.trace_context import parse_traceparent
from retries.api.attempts import MOST_RESULT_BYTES

# How long a client may keep a list of tools: a token's scopes rarely change.
TTL_MS = 300_000
SERVER = {"name": "tenfour", "title": "Tenfour", "version": __version__}
CAPABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}}

# The tool that is called may allow less.
authenticate = BearerAuth("", body_bytes=MOST_RESULT_BYTES)


@csrf_exempt
def mcp(request: HttpRequest) -> HttpResponse:
    # Every error says what to do next.
    body: Any = None
    message: Message | None = None
    try:
        check_request(request)
        authenticate(request)
        body = parse_body(request.body)
        message = protocol.read_message(body, headers_of(request))
        refuse_unstorable(request, message)
        if message.is_notification:
            identify(request)
            return HttpResponse(status=202)
        with continue_trace(parse_traceparent(message.meta.get("traceparent"))):
            result = answer(request, message)
    except ProtocolError as error:
        if message is not None and not message.is_modern:
            error.status = 200  # clients of these versions take other statuses as lost sessions
        return error_response(error, protocol.id_of(body))
    except BadRequest as error:
        return error_response(ProtocolError(protocol.PARSE_ERROR, error.detail), None)
    except Exception as error:
        return problem_error(api.on_exception(request, error), protocol.id_of(body))
    if message.is_modern:
        result |= {"resultType": "complete", "_meta": {f"{protocol.META}serverInfo": SERVER}}
    return respond({"jsonrpc": "2.0", "id": message.id, "result": result})


def respond(body: dict[str, Any], status: int = 200) -> HttpResponse:
    # A request's id or name may contain a lone surrogate, which is valid only as an escape.
    raw = encode(body).encode(errors="backslashreplace")
    return HttpResponse(raw, status=status, content_type=JSON)


# ---- what a request must be


def check_request(request: HttpRequest) -> None:
    """Raise ProtocolError unless a request may carry a message from this origin."""
    origin = request.headers.get("Origin")
    if origin is not None and not is_own_origin(request, origin):
        text = f"The origin '{origin}' may not call this server."
        raise ProtocolError(protocol.INVALID_REQUEST, text, status=403)
    if request.method != "POST":
        text = "This server has no sessions and no streams. Use POST."
        raise ProtocolError(protocol.INVALID_REQUEST, text, status=405)
    if request.content_type != JSON:
        text = f"The body's content type is '{request.content_type}', not {JSON}."
        raise ProtocolError(protocol.INVALID_REQUEST, text, status=415)
    if not request.accepts(JSON):
        text = f"The header Accept must allow {JSON}."
        raise ProtocolError(protocol.INVALID_REQUEST, text, status=406)


def is_own_origin(request: HttpRequest, origin: str) -> bool:
    # Without TENFOUR_URL, the server's own name is not known: a page elsewhere can have its name
    # resolve to this machine (DNS rebinding), so only addresses are trusted.
    public: str = settings.TENFOUR_URL
    if public:
        return origin.lower() == public.lower()
    asked = f"{request.scheme}://{request.get_host()}"
    return origin.lower() == asked.lower() and is_address(urlsplit(origin).hostname or "")


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def headers_of(request: HttpRequest) -> Headers:
    names = ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")
    return Headers(*(request.headers.get(name) for name in names))


def refuse_unstorable(request: HttpRequest, message: Message) -> None:
    """Clean the arguments of tools that take a program's output; refuse others' bad characters."""
    tool = catalog.BY_NAME.get(str(message.params.get("name")))
    try:
        cleaned = clean_body(message.params, request.body, cleaned=bool(tool and tool.is_cleaned))
    except Invalid as refusal:
        pointer = refusal.more["errors"][0]["pointer"]
        text = f"/params{pointer}: {refusal.detail}"
        raise ProtocolError(protocol.INVALID_PARAMS, text) from refusal
    message.params.update(cleaned)


# ---- methods


def answer(request: HttpRequest, message: Message) -> dict[str, Any]:
    """Return the result of a request; raise ProtocolError for an unknown method."""
    if message.method == "tools/call":
        return call_tool(request, message)
    principal = identify(request)
    params = message.params
    match message.method, message.is_modern:
        case "initialize", False:
            return describe_server() | {
                "protocolVersion": protocol.negotiate(params.get("protocolVersion")),
                "serverInfo": SERVER,
            }
        case "server/discover", True:
            return describe_server() | {"supportedVersions": list(protocol.SUPPORTED)} | caching()
        case "ping", False:
            return {}
        case "tools/list", is_modern:
            tools = {"tools": catalog.list_tools(principal)}
            return tools | (caching() if is_modern else {})
        case "prompts/list", is_modern:
            prompts = {"prompts": [catalog.PROMPT]}
            return prompts | (caching() if is_modern else {})
        case "prompts/get", _:
            return get_prompt(params)
    raise protocol.method_not_found(message.method)


def describe_server() -> dict[str, Any]:
    return {"capabilities": CAPABILITIES, "instructions": catalog.LOOP}


def caching() -> dict[str, Any]:
    return {"ttlMs": TTL_MS, "cacheScope": "private"}


def get_prompt(params: dict[str, Any]) -> dict[str, Any]:
    if params.get("name") != catalog.PROMPT["name"]:
        text = f"There is no prompt {params.get('name')!r}. Use 'work'."
        raise ProtocolError(protocol.INVALID_PARAMS, text)
    content = {"type": "text", "text": catalog.LOOP}
    return {
        "description": catalog.PROMPT["description"],
        "messages": [{"role": "user", "content": content}],
    }


def call_tool(request: HttpRequest, message: Message) -> dict[str, Any]:
    # An error that the model can correct is a result, not an error of the protocol.
    name, arguments = message.params.get("name"), message.params.get("arguments")
    tool = catalog.BY_NAME.get(name) if isinstance(name, str) else None
    if tool is None:
        identify(request)
        text = f"There is no tool {name!r}. tools/list shows the ones that your token can use."
        raise ProtocolError(protocol.INVALID_PARAMS, text)
    if not isinstance(arguments, (dict, type(None))):
        raise ProtocolError(protocol.INVALID_PARAMS, "'arguments' must be an object.")
    try:
        reply = tool.call(request, arguments or {})
    except Exception as error:
        problem = api.on_exception(request, error)
        if problem.status_code in (401, 429):
            raise
        reply = explain_problem(json.loads(problem.content))
    return reply.as_result()


# ---- errors


def explain_problem(problem: dict[str, Any]) -> Reply:
    more = ("type", "title", "status", "instance", "detail", "hint")
    data = {name: value for name, value in problem.items() if name not in more}
    return Reply(f"{problem['detail']} {problem['hint']}".strip(), data, is_error=True)


def problem_error(problem: HttpResponse, id: str | int | None) -> HttpResponse:
    found = json.loads(problem.content)
    code = protocol.INTERNAL_ERROR if found["status"] >= 500 else protocol.INVALID_REQUEST
    reply = explain_problem(found)
    error = ProtocolError(code, reply.message, status=found["status"], data=reply.data)
    response = error_response(error, id)
    for name in ("WWW-Authenticate", "Retry-After"):
        if name in problem:
            response[name] = problem[name]
    return response


def error_response(error: ProtocolError, id: str | int | None) -> HttpResponse:
    body = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    response = respond({"jsonrpc": "2.0", "id": id, "error": body}, error.status)
    if error.status == 405:
        response["Allow"] = "POST"
        return mark_logged(response)  # legacy clients try GET at each start
    return response
