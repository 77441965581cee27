"""What the API says of itself: operation ids, scopes, examples, and every problem declared."""

from typing import Any

from ninja.operation import Operation

from config.problems import CODES, PROBLEM
from ledger.schemas.platform import ProblemOut

REF = "#/components/schemas/"
ALWAYS = {
    "token_missing",
    "token_invalid",
    "token_expired",
    "token_revoked",
    "rate_limited",
    "internal_error",
    "temporarily_unavailable",
}
WITH_BODY = {
    "bad_request",
    "payload_too_large",
    "unsupported_media_type",
    "validation_error",
}
# what single operations may answer beyond what their shape implies
ALSO: dict[str, set[str]] = {
    "instructions_send": {
        "unknown_agent",
        "idempotency_key_reused",
        "idempotency_in_progress",
    },
    "instructions_list": {"bad_cursor", "validation_error"},
    "agents_list": {"bad_cursor", "validation_error"},
    "events_list": {"bad_cursor", "validation_error"},
    "stats_get": {"validation_error"},
    "instructions_cancel": {"invalid_transition"},
    "tasks_enqueue": {
        "unknown_agent",
        "unknown_dependency",
        "idempotency_key_reused",
        "idempotency_in_progress",
        "invalid_transition",
    },
    "tasks_enqueue_many": {
        "unknown_agent",
        "unknown_dependency",
        "idempotency_key_reused",
        "idempotency_in_progress",
    },
    "tasks_list": {"bad_cursor", "validation_error"},
    "tasks_change": {
        "unknown_agent",
        "invalid_transition",
        "version_mismatch",
        "if_match_required",
    },
    "dead_letters_bulk": {"idempotency_key_reused", "idempotency_in_progress"},
    "tasks_start": {"breaker_open", "concurrency_limit", "invalid_transition"},
    "tasks_abort": {"invalid_transition"},
    "plans_import": {
        "bad_ref",
        "dependency_cycle",
        "duplicate_ref",
        "idempotency_in_progress",
        "idempotency_key_reused",
        "invalid_transition",
        "plan_changed",
        "unknown_agent",
        "unknown_dependency",
    },
    "plans_list": {"bad_cursor", "validation_error"},
    "plans_change": {"version_mismatch", "if_match_required"},
    "plans_confirm": {"human_required"},
    "plans_pause": {"invalid_transition"},
    "plans_resume": {"invalid_transition"},
    "plans_abort": {"invalid_transition"},
    "plans_restart": {"invalid_transition"},
    "claims_take": {"invalid_transition", "not_found"},
    "attempts_heartbeat": {"lease_lost"},
    "attempts_report": {"lease_lost", "attempt_already_reported", "verification_missing"},
    "attempts_exit": {
        "lease_lost",
        "attempt_already_reported",
        "verification_missing",
        "payload_too_large",
    },
    "attempts_release": {"lease_lost"},
    "dead_letters_list": {"bad_cursor", "validation_error"},
    "dead_letters_replay": {
        "invalid_transition",
        "idempotency_key_reused",
        "idempotency_in_progress",
    },
    "dead_letters_dismiss": {
        "invalid_transition",
        "idempotency_key_reused",
        "idempotency_in_progress",
    },
    "renderings_retry_log": {"validation_error"},
    "renderings_retry_jsonl": {"validation_error"},
    "escalations_list": {"bad_cursor", "validation_error"},
    "escalations_resolve": {
        "human_required",
        "already_resolved",
        "escalation_expired",
        "invalid_transition",
        "version_mismatch",
        "idempotency_key_reused",
        "idempotency_in_progress",
    },
    "escalations_withdraw": {
        "human_required",
        "already_resolved",
        "escalation_expired",
        "invalid_transition",
    },
    "escalations_assign": {"human_required", "already_resolved", "escalation_expired"},
    "escalations_comment": {
        "human_required",
        "idempotency_key_reused",
        "idempotency_in_progress",
    },
    "attempts_escalate": {
        "lease_lost",
        "invalid_transition",
        "idempotency_key_reused",
        "idempotency_in_progress",
    },
}


class Documented:
    """Completes the description that ninja derives."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **kwargs: Any) -> Any:
        schema = super().get_openapi_schema(**kwargs)  # type: ignore[misc]
        schemas = schema["components"]["schemas"]
        schema["components"]["securitySchemes"] = {
            "TenfourToken": {"type": "http", "scheme": "bearer", "bearerFormat": "tenfour_<kind>_…"}
        }
        schemas["ProblemOut"] = ProblemOut.model_json_schema(ref_template=REF + "{model}")
        schema["tags"] = [
            {"name": name, "description": text}
            for name, text in {
                "platform": "Who calls, and how things stand.",
                "instructions": "Texts for agents, tracked until they are acknowledged.",
                "signals": "What agents report; it acknowledges what expects it.",
                "tasks": "Units of work for agents, each ending in a known state.",
                "plans": "Ordered sets of tasks, imported from files.",
                "attempts": "Executions under a lease.",
                "dead letters": "What failed for good.",
                "agents": "Named workers.",
                "escalations": "What machines could not settle, for people.",
                "events": "The append-only journal.",
                "renderings": "The same facts as the files of the older systems.",
            }.items()
        ]
        scopes = self.scopes()
        for path in schema["paths"].values():
            for operation in path.values():
                complete(operation, schemas, scopes.get(operation["operationId"], ""))
        return schema

    def scopes(self) -> dict[str, str]:
        """The scope that each operation asks for, by its id."""
        return {
            operation.view_func.__name__: callback.scope
            for bound in self._get_bound_routers()  # type: ignore[attr-defined]
            for view in bound.path_operations.values()
            for operation in view.operations
            for callback in operation.auth_callbacks
        }


def complete(operation: dict[str, Any], schemas: dict[str, Any], scope: str) -> None:
    """Give one operation its scope, its examples and the problems it may answer with."""
    operation["summary"] = operation.get("description", "").partition("\n")[0].rstrip(".")
    if scope:
        operation["x-required-scopes"] = [scope]
    operation["security"] = [{"TenfourToken": []}]
    contents = [answer.get("content", {}) for answer in operation["responses"].values()]
    if "requestBody" in operation:
        contents.append(operation["requestBody"]["content"])
    for content in contents:
        for media in content.values():
            if (example := example_of(media.get("schema", {}), schemas)) is not None:
                media["example"] = example
    for code in sorted(codes_of(operation, scope)):
        status = CODES[code][0]
        declared = operation["responses"].setdefault(
            status,
            {
                "description": "",
                "content": {PROBLEM: {"schema": {"$ref": REF + "ProblemOut"}}},
            },
        )
        declared["description"] = ", ".join(filter(None, [declared["description"], f"`{code}`"]))


def codes_of(operation: dict[str, Any], scope: str) -> set[str]:
    codes = ALWAYS | ALSO.get(operation["operationId"], set())
    if scope:
        codes |= {"scope_missing"}
    if "requestBody" in operation:
        codes |= WITH_BODY
    if any(parameter["in"] == "path" for parameter in operation.get("parameters", [])):
        codes |= {"not_found", "validation_error"}
    return codes


def example_of(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """The example of the schema that a media type refers to."""
    refs = [schema, *schema.get("anyOf", [])]
    names = [part["$ref"].removeprefix(REF) for part in refs if "$ref" in part]
    return next((schemas[name]["example"] for name in names if "example" in schemas[name]), None)
