"""Complete the OpenAPI description: scopes, headers, bodies, examples, and every problem."""

import json
from collections.abc import Iterable
from typing import Any

from ninja import Router

from config.api_document.operation_problems import LOCKED, problem_codes
from config.api_document.problems import PROBLEM, problem_kinds
from ledger.idempotency import KEY_LENGTH
from ledger.schemas.problems import ProblemOut

REF = "#/components/schemas/"
HEADER = "#/components/headers/"
PARAMETER = "#/components/parameters/"
RESPONSE = "#/components/responses/"
SERVERS = [
    {"url": "/", "description": "the server that serves this document"},
    {
        "url": "http://127.0.0.1:{port}",
        "description": "an installation on this machine",
        "variables": {"port": {"default": "8000", "description": "the port, as in TENFOUR_PORT"}},
    },
]
TAGS = {
    "platform": "The caller, and statistics.",
    "instructions": "Texts for agents, tracked until they are acknowledged.",
    "standing instructions": "Rules that send instructions when something happens.",
    "signals": "Reports of what agents do or see; they acknowledge matching instructions.",
    "hooks": "Events of coding agents, such as Claude Code and Codex, and what their hooks return.",
    "sessions": "Conversations of agents, and the tasks that are found in them.",
    "tasks": "Units of work for agents. Each one ends in a known state.",
    "plans": "Ordered sets of tasks, imported from files.",
    "attempts": "Executions of a task under a lease.",
    "dead letters": "Tasks that failed permanently.",
    "agents": "Named workers, each with its own queue.",
    "pools": "Names that tasks can be sent to instead of one agent; members claim them.",
    "escalations": "Decisions that need a person.",
    "on call": "Escalation policies and rotas: who is told of an escalation, and what comes next.",
    "permissions": "Agents' requests to make a tool call, and the rules that answer some of them.",
    "patterns": "Failures with the same error, across tasks and agents.",
    "policies": "What a project decides about failures that a retry may not fix.",
    "budgets": "Limits of tasks, plans and the project in tokens or dollars, and models' prices.",
    "targets": "Shares of instructions, tasks, and attempts that should be in time.",
    "experiments": "Measurements of what an element of the retry context is worth.",
    "notifications": "Webhooks, channels for people, the rules that use them, and deliveries.",
    "operations": "Actions on many rows that people started, and their results.",
    "tokens": "Bearer keys. Only a token with the scope `tokens:write` manages them.",
    "events": "The append-only journal.",
    "markers": "Deploys and other changes, drawn on charts of time.",
    "renderings": "The ledger in the file formats of earlier systems.",
}
TEXT = {"type": "string"}
REQUEST_HEADERS: dict[str, dict[str, Any]] = {
    "RequestId": {
        "name": "X-Request-Id",
        "description": "an id for this request, returned and logged; the server makes one if it "
        "is missing",
        "schema": TEXT | {"pattern": "^[A-Za-z0-9._-]{1,64}$"},
        "example": "build-1734",
    },
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "description": "a new value for every new request; repeated, it returns the first response",
        "schema": TEXT | {"pattern": "^[!-~]+$", "minLength": 1, "maxLength": KEY_LENGTH},
        "example": "3f0c9a52-enqueue-1",
    },
    "IfMatch": {
        "name": "If-Match",
        "required": True,
        "description": "the ETag of the version that you read; missing is 428, stale is 412",
        "schema": TEXT | {"pattern": '^"v[1-9][0-9]{0,8}"$'},
        "example": '"v7"',
    },
    "IfMatchOptional": {
        "name": "If-Match",
        "description": "the ETag of the version that you read; a stale one is refused with 412",
        "schema": TEXT | {"pattern": '^"v[1-9][0-9]{0,8}"$'},
        "example": '"v7"',
    },
}
RESPONSE_HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {
        "required": True,
        "description": "the request's id, which is also in the log",
        "schema": TEXT,
    },
    "ETag": {
        "required": True,
        "description": "the version, for If-Match",
        "schema": TEXT,
        "example": '"v7"',
    },
    "Idempotency-Replayed": {
        "description": "true if this is the stored response of an earlier request",
        "schema": TEXT | {"enum": ["true"]},
    },
    "Retry-After": {
        "description": "seconds to wait before the next try",
        "schema": {"type": "integer", "minimum": 0},
    },
    "WWW-Authenticate": {
        "required": True,
        "description": "the scheme to authenticate with",
        "schema": TEXT | {"enum": ["Bearer"]},
    },
    "Tenfour-Attempt": {
        "description": "with a response as text, the ids of the open attempts, separated by commas",
        "schema": TEXT,
    },
    "Output-Limit": {
        "required": True,
        "description": "how many bytes of the output are stored",
        "schema": {"type": "integer"},
    },
}
# Operations whose success has these headers.
WITH_ETAG = {
    "attempts_release",
    "escalation_policies_get",
    "escalation_policies_update",
    "rotas_get",
    "rotas_update",
    "escalations_assign",
    "escalations_get",
    "escalations_snooze",
    "escalations_undo",
    "escalations_withdraw",
    "plans_abort",
    "plans_confirm",
    "plans_get",
    "plans_pause",
    "plans_restart",
    "plans_resume",
    "plans_update",
    "policies_get",
    "policies_update",
    "standing_instructions_delete",
    "standing_instructions_get",
    "standing_instructions_pause",
    "standing_instructions_resume",
    "standing_instructions_update",
    "tasks_abort",
    "tasks_assign",
    "tasks_get",
    "tasks_unblock",
    "tasks_update",
}
WITH_ATTEMPT = {"attempts_report_exit", "attempts_report_result", "claims_create", "tasks_start"}
WITH_OUTPUT_LIMIT = {"attempts_report_exit"}
# Error codes whose responses say when to retry.
WAITING = {
    "request_timeout",
    "rate_limited",
    "too_many_auth_failures",
    "temporarily_unavailable",
    "breaker_open",
    "concurrency_limit",
    "agent_waits",
    "task_locked",
    "flush_exhausted",
    "session_locked",
}
# The noun of a path's {id}, by the path's first part.
IDS = {
    "escalation-policies": "the policy's id",
    "deliveries": "the delivery's id",
    "notification-channels": "the channel's id",
    "notification-rules": "the rule's id",
    "webhooks": "the webhook's id",
    "agents": "the agent's id or name",
    "task-types": "the type, such as code",
    "attempts": "the attempt's id",
    "markers": "the marker's id",
    "budgets": "the budget's id",
    "dead-letters": "the dead letter's id",
    "escalations": "the escalation's id",
    "experiments": "the experiment's id",
    "instructions": "the instruction's id",
    "operations": "the operation's id",
    "patterns": "the pattern's id",
    "permission-rules": "the rule's id",
    "rotas": "the rota's id",
    "permissions": "the request's id",
    "plans": "the plan's id or ref, such as 03-01",
    "pools": "the pool's id or name",
    "prices": "the price's id",
    "sessions": "the session's id",
    "standing-instructions": "the rule's id",
    "tasks": "the task's id",
    "tokens": "the token's id",
}
EXIT_CODE = "the program's exit code; 124 and 137 mean a timeout"


def scopes_of(routers: Iterable[Router]) -> dict[str, str]:
    return {
        operation.view_func.__name__: getattr(operation.auth_param, "scope", "")
        for router in routers
        for view in router.path_operations.values()
        for operation in view.operations
    }


def complete_schema(schema: Any, *, scopes: dict[str, str]) -> Any:
    components = schema["components"]
    schemas = components["schemas"]
    components["securitySchemes"] = {
        "TenfourToken": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "tenfour_<kind>_…",
            "description": "a token of the project; `x-required-scopes` names the scope it needs",
        }
    }
    components["parameters"] = {
        name: {"in": "header", **header} for name, header in REQUEST_HEADERS.items()
    }
    components["headers"] = RESPONSE_HEADERS
    schemas["ProblemOut"] = ProblemOut.model_json_schema(ref_template=REF + "{model}")
    schema["servers"] = SERVERS
    schema["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            describe_parameters(operation, path)
            complete_operation(operation, schemas, scopes[operation["operationId"]])
            add_headers(operation)
    components["responses"] = share_problems(schema["paths"])
    return schema


def describe_parameters(operation: dict[str, Any], path: str) -> None:
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            is_id = parameter["name"] == "id"
            parameter["description"] = IDS[path.split("/")[2]] if is_id else EXIT_CODE
            continue
        schema = dict(parameter["schema"])  # operations share it
        described = schema.pop("description", "")
        parameter.setdefault("description", described)
        # A reference with a default becomes such an `allOf`, which generators take for an object.
        if len(parts := schema.pop("allOf", [])) == 1:
            schema = parts[0] | schema
        parameter["schema"] = schema


def complete_operation(operation: dict[str, Any], schemas: dict[str, Any], scope: str) -> None:
    operation["summary"] = operation.get("description", "").partition("\n")[0].rstrip(".")
    if scope:
        operation["x-required-scopes"] = [scope]
    operation["security"] = [{"TenfourToken": []}]
    contents = [response.get("content", {}) for response in operation["responses"].values()]
    if "requestBody" in operation:
        contents.append(operation["requestBody"]["content"])
    for content in contents:
        for media in content.values():
            if (example := find_example(media.get("schema", {}), schemas)) is not None:
                media["example"] = example
    codes = sorted(problem_codes(operation, scope))
    operation["x-error-codes"] = codes
    for code in codes:
        kind = problem_kinds()[code]
        response = operation["responses"].setdefault(
            kind.status,
            {
                "description": "",
                "content": {
                    PROBLEM: {
                        "schema": {"$ref": REF + "ProblemOut"},
                        "example": problem_example(code, schemas),
                    }
                },
            },
        )
        response["description"] = ", ".join(filter(None, [response["description"], f"`{code}`"]))


def problem_example(code: str, schemas: dict[str, Any]) -> dict[str, Any]:
    kind, example = problem_kinds()[code], schemas["ProblemOut"]["example"]
    if code == example["code"]:
        return dict(example)
    return {
        "type": f"https://tenfour.example.org/problems/{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": f"{kind.title}.",
        "instance": "/v1/…",
        "code": code,
        "retryable": kind.retryable,
        "hint": kind.hint,
        "request_id": example["request_id"],
    }


def add_headers(operation: dict[str, Any]) -> None:
    name, codes = operation["operationId"], set(operation["x-error-codes"])
    takes = ["RequestId"]
    if operation.get("x-idempotent"):
        takes.append("IdempotencyKey")
    if "version_mismatch" in codes:
        takes.append("IfMatch" if codes >= LOCKED else "IfMatchOptional")
    parameters = [{"$ref": PARAMETER + header} for header in takes]
    operation["parameters"] = operation.get("parameters", []) + parameters
    for status, response in operation["responses"].items():
        sends = list_headers(operation, name) if int(status) < 300 else []
        if any(problem_kinds()[code].status == int(status) for code in codes & WAITING):
            sends.append("Retry-After")
        if int(status) == 401:
            sends.append("WWW-Authenticate")
        headers = {header: {"$ref": HEADER + header} for header in ["X-Request-Id", *sends]}
        response["headers"] = headers


def share_problems(paths: dict[str, Any]) -> dict[str, Any]:
    """Replace equal problem responses of the operations by references; return the shared ones."""
    # Their examples are long, and most operations have the same ones: this halves the document.
    shared: dict[str, Any] = {}
    names: dict[str, str] = {}
    for methods in paths.values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                if PROBLEM not in response.get("content", {}):
                    continue
                text = json.dumps(response, sort_keys=True)
                if text not in names:
                    number = sum(name.startswith(f"Problem{status}") for name in shared) + 1
                    names[text] = f"Problem{status}_{number}"
                    shared[names[text]] = response
                operation["responses"][status] = {"$ref": RESPONSE + names[text]}
    return shared


def list_headers(operation: dict[str, Any], name: str) -> list[str]:
    optional = {
        "ETag": name in WITH_ETAG,
        "Idempotency-Replayed": operation.get("x-idempotent", False),
        "Tenfour-Attempt": name in WITH_ATTEMPT,
        "Output-Limit": name in WITH_OUTPUT_LIMIT,
    }
    return [header for header, is_sent in optional.items() if is_sent]


def find_example(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    if "example" in schema:
        return schema["example"]
    refs = [schema, *schema.get("anyOf", [])]
    names = [part["$ref"].removeprefix(REF) for part in refs if "$ref" in part]
    return next((schemas[name]["example"] for name in names if "example" in schemas[name]), None)
