"""Complete the OpenAPI description: scopes, examples, and every problem an operation returns."""

from collections.abc import Iterable
from typing import Any

from ninja import Router

from config.problems import PROBLEM, problem_kinds
from ledger.schemas.problems import ProblemOut

REF = "#/components/schemas/"
TAGS = {
    "platform": "The caller, and statistics.",
    "instructions": "Texts for agents, tracked until they are acknowledged.",
    "signals": "Reports of what agents do or see; they acknowledge matching instructions.",
    "tasks": "Units of work for agents. Each one ends in a known state.",
    "plans": "Ordered sets of tasks, imported from files.",
    "attempts": "Executions of a task under a lease.",
    "dead letters": "Tasks that failed permanently.",
    "agents": "Named workers, each with its own queue.",
    "escalations": "Decisions that need a person.",
    "events": "The append-only journal.",
    "renderings": "The ledger in the file formats of earlier systems.",
}
ALWAYS = {
    "token_missing",
    "token_invalid",
    "token_expired",
    "token_revoked",
    "rate_limited",
    "internal_error",
    "temporarily_unavailable",
    "validation_error",
}
WITH_BODY = {
    "bad_request",
    "payload_too_large",
    "unsupported_media_type",
}
LIST = {"bad_cursor"}
FILTERED = LIST | {"unknown_agent"}
IDEMPOTENT = {"idempotency_key_reused", "idempotency_in_progress"}
LOCKED = {"version_mismatch", "if_match_required"}
REPORT = {"lease_lost", "attempt_already_reported", "verification_missing"}
CLOSED = {"already_resolved", "escalation_expired"}
# Problems of single operations, beyond those that follow from its parameters and scope.
OPERATIONS: dict[str, set[str]] = {
    "agents_list": LIST,
    "attempts_escalate": IDEMPOTENT | {"invalid_transition", "lease_lost"},
    "attempts_exit": REPORT | {"payload_too_large"},
    "attempts_heartbeat": {"lease_lost"},
    "attempts_release": {"lease_lost"},
    "attempts_report": REPORT,
    "claims_take": {"invalid_transition", "not_found"},
    "dead_letters_bulk": IDEMPOTENT | {"unknown_agent"},
    "dead_letters_dismiss": IDEMPOTENT | {"invalid_transition"},
    "dead_letters_list": FILTERED,
    "dead_letters_replay": IDEMPOTENT | {"invalid_transition"},
    "escalations_assign": CLOSED | {"human_required"},
    "escalations_comment": IDEMPOTENT | {"human_required"},
    "escalations_list": FILTERED,
    "escalations_resolve": CLOSED
    | IDEMPOTENT
    | {"human_required", "invalid_transition", "version_mismatch"},
    "escalations_withdraw": CLOSED | {"human_required", "invalid_transition"},
    "events_list": FILTERED,
    "instructions_cancel": {"invalid_transition"},
    "instructions_list": FILTERED,
    "instructions_send": IDEMPOTENT | {"unknown_agent"},
    "plans_abort": {"invalid_transition"},
    "plans_change": LOCKED,
    "plans_confirm": {"human_required"},
    "plans_import": IDEMPOTENT
    | {
        "bad_ref",
        "dependency_cycle",
        "duplicate_ref",
        "invalid_transition",
        "malformed_task",
        "plan_changed",
        "unknown_agent",
        "unknown_dependency",
    },
    "plans_list": LIST,
    "plans_pause": {"invalid_transition"},
    "plans_restart": {"invalid_transition"},
    "plans_resume": {"invalid_transition"},
    "tasks_abort": {"invalid_transition"},
    "tasks_attempts": LIST,
    "tasks_change": LOCKED | {"invalid_transition", "unknown_agent"},
    "tasks_enqueue": IDEMPOTENT | {"invalid_transition", "unknown_agent", "unknown_dependency"},
    "tasks_enqueue_many": IDEMPOTENT | {"unknown_agent", "unknown_dependency"},
    "tasks_events": LIST,
    "tasks_list": FILTERED,
    "tasks_start": {"breaker_open", "concurrency_limit", "invalid_transition"},
}


def scopes_of(routers: Iterable[Router]) -> dict[str, str]:
    """Return the scope that each operation requires, by operation id."""
    return {
        operation.view_func.__name__: getattr(operation.auth_param, "scope", "")
        for router in routers
        for view in router.path_operations.values()
        for operation in view.operations
    }


def complete_schema(schema: Any, *, scopes: dict[str, str]) -> Any:
    """Add security, tags, examples, and problems to the schema that ninja derives."""
    schemas = schema["components"]["schemas"]
    schema["components"]["securitySchemes"] = {
        "TenfourToken": {"type": "http", "scheme": "bearer", "bearerFormat": "tenfour_<kind>_…"}
    }
    schemas["ProblemOut"] = ProblemOut.model_json_schema(ref_template=REF + "{model}")
    schema["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    for path in schema["paths"].values():
        for operation in path.values():
            complete_operation(operation, schemas, scopes[operation["operationId"]])
    return schema


def complete_operation(operation: dict[str, Any], schemas: dict[str, Any], scope: str) -> None:
    """Add an operation's summary, scope, examples, and problems."""
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
    for code in sorted(problem_codes(operation, scope)):
        response = operation["responses"].setdefault(
            problem_kinds()[code].status,
            {
                "description": "",
                "content": {PROBLEM: {"schema": {"$ref": REF + "ProblemOut"}}},
            },
        )
        response["description"] = ", ".join(filter(None, [response["description"], f"`{code}`"]))


def problem_codes(operation: dict[str, Any], scope: str) -> set[str]:
    """Return the codes of all problems that an operation may return."""
    codes = ALWAYS | OPERATIONS.get(operation["operationId"], set())
    if scope:
        codes |= {"scope_missing"}
    if "requestBody" in operation:
        codes |= WITH_BODY
    if any(parameter["in"] == "path" for parameter in operation.get("parameters", [])):
        codes |= {"not_found"}
    return codes


def find_example(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Return the example of the schema that a media type refers to, or None."""
    refs = [schema, *schema.get("anyOf", [])]
    names = [part["$ref"].removeprefix(REF) for part in refs if "$ref" in part]
    return next((schemas[name]["example"] for name in names if "example" in schemas[name]), None)
