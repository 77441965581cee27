"""The error codes that each operation of the API can return."""

from collections.abc import Mapping
from typing import Any

ALWAYS = {
    "token_missing",
    "token_invalid",
    "token_expired",
    "token_revoked",
    "project_moving",
    "rate_limited",
    "too_many_auth_failures",
    "internal_error",
    "temporarily_unavailable",
    "validation_error",
}
WITH_BODY = {
    "bad_request",
    "length_required",
    "payload_too_large",
    "request_timeout",
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
    "accounts_list": LIST,
    "agents_keep_breaker_open": {"invalid_transition"},
    "agents_list": LIST,
    "plans_get_retry_jsonl": LIST,
    "plans_get_retry_log": LIST,
    "renderings_get_retry_jsonl": LIST,
    "renderings_get_retry_log": LIST,
    "attempts_escalate": IDEMPOTENT | {"invalid_transition", "lease_lost"},
    "attempts_report_exit": REPORT | {"payload_too_large"},
    "attempts_heartbeat": {"lease_lost"},
    "attempts_release": {"lease_lost"},
    "attempts_report_result": REPORT,
    "budgets_delete": {"human_required"},
    "budgets_grant": {"human_required"},
    "budgets_list": LIST,
    "budgets_set": {"human_required", "not_found"},
    "budgets_update": LOCKED | {"human_required"},
    "claims_create": {"invalid_transition", "not_found"},
    "dead_letters_close_many": IDEMPOTENT | {"unknown_agent"},
    "dead_letters_dismiss": IDEMPOTENT | {"invalid_transition"},
    "dead_letters_list": FILTERED,
    "dead_letters_replay": IDEMPOTENT | {"invalid_transition"},
    "deliveries_list": LIST,
    "deliveries_redeliver": {"invalid_transition"},
    "escalations_assign": CLOSED | {"human_required"},
    "escalations_comment": IDEMPOTENT | {"human_required"},
    "escalations_list": FILTERED,
    "escalations_resolve": CLOSED
    | IDEMPOTENT
    | {"human_required", "invalid_transition", "version_mismatch"},
    "escalations_snooze": CLOSED | {"human_required"},
    "escalations_undo": {"human_required", "invalid_transition"},
    "escalations_withdraw": CLOSED | {"human_required", "invalid_transition"},
    "events_list": FILTERED,
    "experiments_end": {"human_required", "invalid_transition"},
    "experiments_list": LIST,
    "experiments_create": {"human_required", "invalid_transition"},
    "instructions_cancel": {"invalid_transition"},
    "instructions_list": FILTERED,
    "instructions_create": IDEMPOTENT | {"unknown_agent"},
    "notification_channels_list": LIST,
    "notification_channels_update": LOCKED,
    "notification_rules_create": IDEMPOTENT | {"unknown_agent"},
    "notification_rules_list": LIST,
    "notification_rules_update": LOCKED | {"unknown_agent"},
    "operations_list": LIST,
    "patterns_ignore": {"human_required", "invalid_transition"},
    "patterns_list": LIST,
    "patterns_list_failures": LIST,
    "patterns_promote_fix": {"human_required"},
    "patterns_reopen": {"human_required", "invalid_transition"},
    "patterns_reset_fix": {"human_required"},
    "patterns_resolve": {"human_required", "invalid_transition"},
    "patterns_retire_fix": {"human_required"},
    "patterns_retry": IDEMPOTENT | {"human_required", "invalid_transition"},
    "permission_rules_create": IDEMPOTENT | {"human_required", "unknown_agent"},
    "permission_rules_list": LIST,
    "permission_rules_revoke": {"human_required", "invalid_transition"},
    "permission_rules_try": {"unknown_agent"},
    "permissions_create": IDEMPOTENT | {"not_found"},
    "permissions_list": FILTERED,
    "plans_abort": {"invalid_transition"},
    "plans_update": LOCKED,
    "plans_confirm": {"human_required"},
    "plans_create": IDEMPOTENT
    | {
        "bad_ref",
        "dependency_cycle",
        "duplicate_ref",
        "invalid_transition",
        "malformed_task",
        "plan_ambiguous",
        "plan_changed",
        "unknown_agent",
        "unknown_dependency",
    },
    "plans_list": LIST,
    "plans_pause": {"invalid_transition"},
    "plans_restart": {"invalid_transition"},
    "plans_resume": {"invalid_transition"},
    "prices_delete": {"human_required"},
    "prices_set": {"human_required"},
    "sessions_call_tools": IDEMPOTENT | {"session_locked", "tool_call_refused"},
    "sessions_create": {"not_found", "unknown_agent"},
    "sessions_import": {
        "not_found",
        "payload_too_large",
        "unknown_agent",
        "unsupported_media_type",
    },
    "sessions_flush": {"flush_exhausted"},
    "sessions_link_task": IDEMPOTENT | {"invalid_transition", "unknown_agent"},
    "sessions_list": FILTERED,
    "sessions_list_messages": LIST,
    "sessions_store_messages": IDEMPOTENT | {"payload_too_large"},
    "policies_update": LOCKED | {"human_required"},
    "standing_instructions_create": IDEMPOTENT | {"unknown_agent"},
    "standing_instructions_list": FILTERED,
    "standing_instructions_pause": {"invalid_transition"},
    "standing_instructions_resume": {"invalid_transition"},
    "standing_instructions_try": {"unknown_agent"},
    "standing_instructions_try_saved": {"unknown_agent"},
    "standing_instructions_update": LOCKED | {"invalid_transition", "unknown_agent"},
    "tasks_abort": {"invalid_transition"},
    "tasks_list_attempts": LIST,
    "tasks_update": LOCKED | {"invalid_transition", "unknown_agent"},
    "tasks_create": IDEMPOTENT | {"invalid_transition", "unknown_agent", "unknown_dependency"},
    "tasks_create_many": IDEMPOTENT | {"unknown_agent", "unknown_dependency"},
    "tasks_list_events": LIST,
    "tasks_list": FILTERED,
    "tasks_start": {
        "agent_waits",
        "breaker_open",
        "concurrency_limit",
        "invalid_transition",
        "task_locked",
    },
    "tasks_unblock": {"human_required", "invalid_transition"},
    "tokens_create": {"unknown_agent"},
    "tokens_list": LIST,
    "tokens_rotate": {"invalid_transition"},
    "webhooks_list": LIST,
    "webhooks_redeliver": {"invalid_transition"},
    "webhooks_update": LOCKED,
}


def problem_codes(operation: Mapping[str, Any], scope: str) -> set[str]:
    codes = ALWAYS | OPERATIONS.get(operation["operationId"], set())
    if scope:
        codes |= {"scope_missing"}
    if "requestBody" in operation:
        codes |= WITH_BODY
    if any(parameter["in"] == "path" for parameter in operation.get("parameters", [])):
        codes |= {"not_found"}
    return codes
