"""Walk every operation of the API as every kind of caller.

A new operation fails here until it is entered in `MAY` and, if it takes one, in `bodies`.
"""

import json
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.utils import timezone

from ledger.access.scopes import SCOPES, TOKENS_WRITE
from ledger.models import Agent, Token
from tests.access_world import MARK, PLAN, World, list_changes, make_world, read_rows
from tests.factories import make_agent, make_project, make_token
from tests.ledger.api.openapi import openapi_schema

pytestmark = pytest.mark.django_db

# the operations by the kinds of tokens that may call them
MAY = {
    "agent orchestrator operator reader": (
        *("me_get", "instructions_list", "instructions_get", "escalations_list"),
        *("escalations_get", "dead_letters_list", "dead_letters_get"),
        *("standing_instructions_list", "standing_instructions_get"),
        *("standing_instructions_try_saved", "tasks_list", "tasks_get", "tasks_list_events"),
        *("tasks_list_attempts", "tasks_get_retry_context", "tasks_get_prompt", "attempts_get"),
        *("plans_list", "plans_get", "plans_get_forecast", "plans_get_summary", "sessions_list"),
        "attempts_get_output",
        *("sessions_get",),
        *("sessions_list_tools", "sessions_list_messages", "sessions_list_tasks"),
        *("permissions_list", "permissions_get", "permission_rules_list", "task_types_list"),
        "permission_rules_try",
        *("budgets_list", "budgets_get", "prices_list"),
        "sessions_get_status",
    ),
    "agent orchestrator operator": (
        *("tasks_create", "sessions_import", "sessions_create", "sessions_store_messages"),
        *("sessions_flush", "sessions_retry", "traces_create"),
    ),
    "agent operator": ("escalations_withdraw",),
    "agent": (
        *("instructions_pull", "instructions_ack_many", "instructions_ack", "signals_create"),
        *("standing_instructions_hold", "tasks_start", "claims_create", "attempts_heartbeat"),
        *("attempts_report_result", "attempts_report_exit", "attempts_release"),
        "attempts_append_output",
        *("attempts_escalate", "hooks_agent", "permissions_create", "permissions_take"),
        "permissions_withdraw",
    ),
    "orchestrator operator reader": (
        *("agents_list", "agents_get", "policies_get", "patterns_list", "patterns_get"),
        *("patterns_list_failures", "patterns_list_fixes", "renderings_get_retry_state"),
        *("renderings_get_retry_log", "renderings_get_retry_jsonl", "renderings_get_state"),
        *("renderings_get_failure_records", "plans_get_failure_records"),
        *("plans_get_retry_state", "plans_get_retry_log", "plans_get_retry_jsonl"),
        *("plans_get_state", "operations_list", "operations_get", "events_list", "stats_get"),
        *("experiments_list", "experiments_get_needed", "accounts_list", "markers_list"),
        *("escalation_policies_list", "escalation_policies_get", "rotas_list", "rotas_get"),
        *("pools_list", "pools_get", "targets_list"),
    ),
    "orchestrator operator": (
        *("instructions_create", "instructions_cancel", "standing_instructions_create"),
        *("standing_instructions_try", "standing_instructions_update"),
        *("standing_instructions_delete", "standing_instructions_pause"),
        *("standing_instructions_resume", "tasks_create_many", "tasks_update", "tasks_abort"),
        *("plans_create", "plans_update", "plans_pause", "plans_resume", "plans_abort"),
        *("plans_restart", "sessions_link_task", "sessions_call_tools"),
        *("markers_create", "markers_delete", "task_types_update"),
    ),
    "operator": (
        *("pools_create", "pools_update", "pools_delete"),
        *("agents_create", "agents_update", "agents_reset", "agents_trip_breaker"),
        "agents_keep_breaker_open",
        *("agents_reset_breaker", "tasks_retry", "tasks_unblock", "plans_confirm"),
        "policies_update",
        *("experiments_create", "experiments_end"),
        *("escalations_resolve", "escalations_undo", "escalations_assign"),
        *("escalations_snooze", "escalations_comment", "patterns_ignore", "patterns_resolve"),
        *("patterns_reopen", "patterns_retry", "patterns_promote_fix", "patterns_retire_fix"),
        *("patterns_reset_fix", "dead_letters_replay", "dead_letters_dismiss"),
        *("dead_letters_assign", "dead_letters_comment", "patterns_assign", "patterns_comment"),
        *("tasks_assign", "tasks_comment"),
        *("dead_letters_close_many", "webhooks_list", "webhooks_create", "webhooks_get"),
        *("webhooks_update", "webhooks_delete", "webhooks_test", "webhooks_enable"),
        *("webhooks_disable", "webhooks_rotate", "webhooks_redeliver"),
        *("notification_channels_list", "notification_channels_create"),
        *("notification_channels_get", "notification_channels_update"),
        *("notification_channels_delete", "notification_channels_test"),
        *("notification_channels_enable", "notification_channels_disable"),
        *("notification_rules_list", "notification_rules_create", "notification_rules_get"),
        *("notification_rules_update", "notification_rules_delete", "deliveries_list"),
        *("deliveries_get", "deliveries_redeliver"),
        *("permission_rules_create", "permission_rules_revoke"),
        *("escalation_policies_create", "escalation_policies_update", "rotas_create"),
        *("escalation_policies_delete", "rotas_update", "rotas_delete"),
        *("budgets_set", "budgets_update", "budgets_grant", "budgets_delete"),
        *("prices_set", "prices_delete", "targets_set"),
    ),
    # an operator's token that was created with `tokens:write`
    "manager": ("tokens_list", "tokens_create", "tokens_get", "tokens_delete", "tokens_rotate"),
}


class Call(NamedTuple):
    """An operation of the API with the path and body that it has in a world."""

    name: str
    method: str
    path: str
    scope: str
    body: Any
    headers: dict[str, str]


# whose row an operation's id is, by the beginning of the path
ROWS = {
    "/agents": "agent_id",
    "/attempts": "attempt_id",
    "/budgets": "budget_id",
    "/dead-letters": "letter_id",
    "/deliveries": "delivery_id",
    "/escalation-policies": "escalation_policy_id",
    "/escalations": "escalation_id",
    "/experiments": "experiment_id",
    "/instructions": "instruction_id",
    "/markers": "marker_id",
    "/notification-channels": "channel_id",
    "/notification-rules": "notification_rule_id",
    "/operations": "operation_id",
    "/patterns": "pattern_id",
    "/permission-rules": "permission_rule_id",
    "/permissions": "permission_id",
    "/plans": "plan_id",
    "/pools": "pool_id",
    "/rotas": "rota_id",
    "/prices": "price_id",
    "/sessions": "session_id",
    "/standing-instructions": "rule_id",
    "/task-types": "ref",
    "/tasks": "task_id",
    "/tokens": "token_id",
    "/webhooks": "webhook_id",
}
# and where another row is the one that the operation can change
OWN_ROWS = {
    "escalations_undo": "undoable_id",
    "escalations_withdraw": "question_id",
    "instructions_ack": "delivered_id",
    "tasks_update": "queued_id",
    "tasks_start": "queued_id",
    "tasks_abort": "queued_id",
    "tasks_retry": "queued_id",
    "tasks_unblock": "blocked_id",
    "tasks_get_prompt": "running_id",
    "tasks_get_retry_context": "running_id",
}
CLIENT = Client()  # a new one loads all middleware again
LINE = '{"type":"user","sessionId":"8c1f","uuid":"9339","message":{"role":"user","content":"Hi"}}'
TEXTS = {
    "attempts_report_exit": "text/plain",
    "plans_create": "text/markdown",
    "sessions_import": "application/x-ndjson",
}
ASSIGNED = ("tasks", "dead_letters", "patterns")
# operations that ask for the version that the caller has read
VERSIONED = {
    "escalation_policies_update",
    "rotas_update",
    "budgets_update",
    "notification_channels_update",
    "notification_rules_update",
    "plans_update",
    "policies_update",
    "standing_instructions_update",
    "tasks_update",
    "webhooks_update",
}
# operations that the world refuses to everyone for another reason, and how
CONFLICTS = {
    "agents_keep_breaker_open": 409,
    "experiments_create": 409,
    "patterns_reopen": 409,
    "plans_restart": 409,
    "tasks_retry": 409,
    "tasks_unblock": 409,
}
# what an agent may see of others' work: rules that hold for every agent
PEER_SEES = {
    "prices_list",
    "permission_rules_list",
    "standing_instructions_list",
    "standing_instructions_get",
    "standing_instructions_try_saved",
}


def bodies(ids: dict[str, Any]) -> dict[str, Any]:
    """Return the body of each operation that needs one."""
    rule = {"on": {"event": "signal", "type": "fs_write"}, "content": "Run the tests"}
    url = "https://93.184.216.34/hooks"  # an address needs no DNS
    return {
        "agents_create": {"name": "new"},
        "pools_create": {"name": "new"},
        "pools_update": {"paused": True},
        "task_types_update": {"paused": True},
        "agents_update": {"paused": True},
        "attempts_escalate": {"question": "Which?"},
        "attempts_append_output": {"at": 0, "text": "done\n"},
        "attempts_report_exit": "done",
        "attempts_report_result": {"status": "success"},
        "budgets_set": {"tokens": 10**9},
        "budgets_update": {"at_limit": "stop"},
        "budgets_grant": {"amount": "5 tokens"},
        "prices_set": {"model": "own", "input": 1, "output": 2},
        "dead_letters_close_many": {"action": "dismiss", "ids": [str(ids["letter_id"])]},
        "escalation_policies_create": {
            "name": "days",
            "answer_within_s": 600,
            "steps": ["0 tell role:operator"],
        },
        "escalation_policies_update": {"answer_within_s": 900},
        "escalations_assign": {"user": "mara"},
        "escalations_comment": {"text": "seen"},
        **{f"{noun}_assign": {"user": "mara"} for noun in ASSIGNED},
        **{f"{noun}_comment": {"text": "seen"} for noun in ASSIGNED},
        "escalations_resolve": {"action": "skip"},
        "escalations_snooze": {"until": None},
        "experiments_create": {"element": "known", "share": 20, "reason": "try"},
        "experiments_end": {"reason": "enough"},
        "hooks_agent": {"hook_event_name": "Stop", "session_id": "s", "cwd": "/"},
        "instructions_create": {"agent": "coder", "content": "Look"},
        "instructions_ack_many": {"ids": [str(ids["delivered_id"])]},
        "markers_create": {"name": "deploy 2024.12"},
        "notification_channels_create": {"name": "new", "url": "ntfy://ntfy.example.com/new"},
        "notification_channels_update": {"name": "other"},
        "notification_rules_create": {"conditions": ["plan"], "channel_id": str(ids["channel_id"])},
        "notification_rules_update": {"cap_per_hour": 4},
        "patterns_promote_fix": ids["fix"],
        "patterns_reset_fix": ids["fix"],
        "patterns_retire_fix": ids["fix"],
        "permission_rules_create": {"tool": "Bash", "matcher": "npm test"},
        "permission_rules_try": {"tool": "Bash", "matcher": "npm test"},
        "permissions_create": {"tool": "Bash", "input": {"command": "npm test"}},
        "plans_create": PLAN.replace("plan: 01", "plan: 02"),
        "plans_update": {"title": "Other"},
        "plans_confirm": {"commands": {f"{ids['ref']}:task-1": "npm test -- zebra"}},
        "policies_update": {"obey_waits": "off", "reason": "try"},
        "rotas_create": {"name": "days", "shifts": [], "fallback": [ids["operator"]]},
        "rotas_update": {"timezone": "Europe/Berlin"},
        "sessions_create": {"agent": "coder"},
        "sessions_import": f"{LINE}\n",
        "sessions_store_messages": {"role": "user", "content": "Hi"},
        "sessions_link_task": {"agent": "coder", "type": "code"},
        "sessions_call_tools": {"calls": [{"name": "finish"}]},
        "signals_create": {"type": "fs_write", "attempt": str(ids["attempt_id"])},
        "standing_instructions_create": rule,
        "standing_instructions_try": {"rule": rule, "sample": {"event": "signal"}},
        "standing_instructions_try_saved": {"event": "signal", "type": "fs_write"},
        "standing_instructions_update": {"content": "Run them all"},
        "targets_set": {"type": "code", "measure": "run", "percent": 95, "within_s": 60},
        "tasks_create": {"agent": "coder", "type": "code"},
        "tasks_create_many": {"tasks": [{"agent": "coder", "type": "code"}]},
        "tasks_update": {"priority": 3},
        "tokens_create": {"kind": "reader"},
        "webhooks_create": {"name": "new", "url": url},
        "webhooks_update": {"name": "other"},
        "webhooks_redeliver": {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"},
    }


def list_calls(ids: dict[str, Any]) -> list[Call]:
    """Return a call of every operation that the API's description has."""
    given, found = bodies(ids), []
    for path, methods in openapi_schema()["paths"].items():
        path = path.removeprefix("/v1")
        for method, operation in methods.items():
            name = operation["operationId"]
            row = OWN_ROWS.get(name) or ROWS.get(path.partition("/{")[0], "")
            filled = path.replace("{id}", str(ids[row])) if "{id}" in path else path
            filled += "?agent=coder" if name == "sessions_import" else ""
            filled = filled.replace("{code}", "0").replace("{order}", str(ids["order"]))
            (scope,) = operation.get("x-required-scopes", [""])
            headers = {"Content-Type": TEXTS[name]} if name in TEXTS else {}
            if name in VERSIONED:
                headers["If-Match"] = f'"v{ids["versions"].get(row, 1)}"'
            body = given.get(name, {}) if method != "get" else None
            found.append(Call(name, method.upper(), filled, scope, body, headers))
    return found


class Answer(NamedTuple):
    status: int
    text: str


def send(secret: str, call: Call, *, undo: bool = True) -> Answer:
    """Send a call with a token; undo what it does if it may do it and is asked to."""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    data = call.body if isinstance(call.body, str) else json.dumps(call.body)
    with transaction.atomic():
        response = CLIENT.generic(
            call.method,
            f"/v1{call.path}",
            data if call.body is not None else "",
            content_type=call.headers.get("Content-Type", "application/json"),
            headers=headers | call.headers,
        )
        streamed: Any = response
        text = b"".join(streamed) if response.streaming else response.content
        transaction.set_rollback(undo and response.status_code < 300)
    return Answer(response.status_code, text.decode())


@pytest.fixture
def world(agent: Agent) -> World:
    return make_world(agent, timezone.now())


def test_the_table_has_every_operation_once() -> None:
    known = [
        operation["operationId"]
        for methods in openapi_schema()["paths"].values()
        for operation in methods.values()
    ]
    assert sorted(chain.from_iterable(MAY.values())) == sorted(known)


def test_each_kind_of_token_may_call_its_operations_and_no_others(world: World) -> None:
    """A refused call changes nothing, and names the missing scope."""
    secrets = {kind: make_token(kind) for kind in ("orchestrator", "operator", "reader")}
    secrets["agent"] = make_token("agent", agent=world.agent)
    secrets["manager"] = make_token("operator", manages_tokens=True)
    narrow = {scope: make_token("operator", name=scope) for scope in sorted(SCOPES)}
    for scope in SCOPES:
        Token.objects.filter(name=scope).update(scopes=sorted(SCOPES - {scope}))
    secrets |= {"revoked": make_token("operator", name="over"), "none": ""}
    Token.objects.filter(name="over").update(revoked_at=timezone.now())
    may = {name: {*kinds.split()} for kinds, names in MAY.items() for name in names}
    wrong: list[object] = []
    before = read_rows()
    for call in list_calls(world.ids):
        cache.clear()  # the limit of calls with a wrong token
        callers = secrets | ({"narrow": narrow[call.scope]} if call.scope else {})
        for kind, secret in callers.items():
            if kind == ("manager" if call.scope != TOKENS_WRITE else "operator"):
                continue  # as the other of the two
            answer = send(secret, call)
            expected = {401} if kind in ("none", "revoked") else {403, 404}
            if kind in may[call.name]:
                expected = {CONFLICTS.get(call.name, 200), 201, 204}
            if answer.status not in expected:
                wrong.append((call.name, kind, answer))
            if kind == "narrow" and f'"scope": "{call.scope}"' not in answer.text:
                wrong.append((call.name, "names another scope", answer))
        if changes := list_changes(before):
            wrong.append((call.name, "changed something", changes))
            before = read_rows()
    assert wrong == []


def test_no_token_of_another_project_or_agent_reaches_a_row(world: World) -> None:
    """Lists leave the rows out, and what is named by id does not exist."""
    elsewhere = make_project("elsewhere")
    namesake = make_agent("coder", project=elsewhere)
    others = (elsewhere.pk, namesake.pk)
    strangers = {
        "foreign": make_token("operator", project=elsewhere, manages_tokens=True),
        "foreign agent": make_token("agent", agent=namesake),
        "peer": make_token("agent", agent=make_agent("peer")),
    }
    own = {str(id) for id in world.ids.values() if isinstance(id, UUID)}
    wrong: list[object] = []
    before = read_rows()
    for call in list_calls(world.ids):
        for kind, secret in strangers.items():
            if kind == "peer" and call.name in PEER_SEES:
                continue
            answer = send(secret, call, undo=kind == "peer")
            asked = f"{call.path} {call.body}"
            if any(id in call.path for id in own) and answer.status not in (403, 404):
                wrong.append((call.name, kind, answer))
            leaked = [id for id in own if id in answer.text and id not in asked]
            if leaked or (MARK in answer.text and MARK not in asked):
                wrong.append((call.name, kind, leaked, answer))
        if changes := list_changes(before, besides=others):
            wrong.append((call.name, "changed something", changes))
            before = read_rows()
    assert wrong == []
