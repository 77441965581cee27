"""Every operation of the API has a verb of the command line, or a reason why it has none."""

import json

from tenfour.commands.completion import read_tree

from tests.serving import ROOT

OPERATIONS = {
    operation["operationId"]
    for methods in json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"].values()
    for operation in methods.values()
}
# what `tenfour NOUN VERB` calls, by the verb
VERBS = {
    "instruction list": {"instructions_list"},
    "instruction show": {"instructions_get"},
    "instruction send": {"instructions_create"},
    "instruction ack": {"instructions_ack_many"},
    "instruction cancel": {"instructions_cancel"},
    "standing list": {"standing_instructions_list"},
    "standing show": {"standing_instructions_get"},
    "standing create": {"standing_instructions_create"},
    "standing change": {"standing_instructions_update"},
    "standing pause": {"standing_instructions_pause"},
    "standing resume": {"standing_instructions_resume"},
    "standing retire": {"standing_instructions_delete"},
    "standing try": {"standing_instructions_try_saved"},
    "task list": {"tasks_list"},
    "task show": {"tasks_get", "tasks_list_attempts"},
    "task create": {"tasks_create"},
    "task change": {"tasks_update"},
    "task abort": {"tasks_abort"},
    "task retry": {"tasks_retry"},
    "task unblock": {"tasks_unblock"},
    "task prompt": {"tasks_get_prompt"},
    "plan list": {"plans_list"},
    "plan show": {"plans_get"},
    "plan status": {"plans_get"},
    "plan forecast": {"plans_get_forecast"},
    "plan import": {"plans_create"},
    "plan sync": {"plans_create"},
    "plan pause": {"plans_pause"},
    "plan resume": {"plans_resume"},
    "plan abort": {"plans_abort"},
    "plan restart": {"plans_restart"},
    "plan rename": {"plans_update"},
    "plan change": {"plans_update"},
    "plan confirm": {"plans_confirm"},
    "agent list": {"agents_list"},
    "agent show": {"agents_get"},
    "agent accounts": {"accounts_list"},
    "agent register": {"agents_create"},
    "agent pause": {"agents_update"},
    "agent resume": {"agents_update"},
    "agent change": {"agents_update"},
    "agent trip": {"agents_trip_breaker"},
    "agent keep-open": {"agents_keep_breaker_open"},
    "agent close": {"agents_reset_breaker"},
    "agent reset": {"agents_reset"},
    "escalation list": {"escalations_list"},
    "escalation show": {"escalations_get"},
    "escalation resolve": {"escalations_resolve"},
    "escalation undo": {"escalations_undo"},
    "escalation assign": {"escalations_assign"},
    "escalation snooze": {"escalations_snooze"},
    "escalation comment": {"escalations_comment"},
    "escalation withdraw": {"escalations_withdraw"},
    "permission list": {"permissions_list"},
    "permission show": {"permissions_get"},
    "permission allow": {"permissions_get", "escalations_resolve"},
    "permission deny": {"permissions_get", "escalations_resolve"},
    "permission rules": {"permission_rules_list"},
    "permission add-rule": {"permission_rules_create"},
    "permission revoke-rule": {"permission_rules_revoke"},
    "permission try-rule": {"permission_rules_try"},
    "budget list": {"budgets_list"},
    "budget show": {"budgets_get"},
    "budget set": {"budgets_set"},
    "budget grant": {"budgets_grant"},
    "budget remove": {"budgets_delete"},
    "budget prices": {"prices_list"},
    "budget set-price": {"prices_set"},
    "budget remove-price": {"prices_delete"},
    "dead-letter list": {"dead_letters_list"},
    "dead-letter show": {"dead_letters_get"},
    "dead-letter replay": {"dead_letters_replay", "dead_letters_close_many"},
    "dead-letter dismiss": {"dead_letters_dismiss", "dead_letters_close_many"},
    "pattern list": {"patterns_list"},
    "pattern show": {"patterns_get"},
    "pattern failures": {"patterns_list_failures"},
    "pattern resolve": {"patterns_resolve"},
    "pattern ignore": {"patterns_ignore"},
    "pattern reopen": {"patterns_reopen"},
    "pattern retry": {"patterns_retry"},
    "event list": {"events_list"},
    "event show": {"events_list"},
    "session list": {"sessions_list"},
    "session show": {"sessions_get", "sessions_list_tasks"},
    "session flush": {"sessions_flush"},
    "session retry": {"sessions_retry"},
    "session import": {"sessions_import"},
    "token list": {"tokens_list"},
    "token show": {"tokens_get"},
    "token create": {"tokens_create"},
    "token rotate": {"tokens_rotate"},
    "token revoke": {"tokens_delete"},
}
# what a noun leaves out, and why
LEFT_OUT = {
    "budgets_update": "`budget set` replaces the one of the same period and unit",
    "instructions_ack": "`instruction ack` acknowledges one or several by the other operation",
    "instructions_pull": "`tenfour pull`, which an agent calls",
    "signals_create": "`tenfour signal`, which an agent calls",
    "claims_create": "`tenfour claim`, `run` and `worker` claim",
    "tasks_start": "`tenfour run` starts a task that it created",
    "tasks_create_many": "the Python client enqueues many; a shell loops, or imports a plan",
    "tasks_list_events": "`event list` reads the journal",
    "tasks_get_retry_context": "`task prompt` prints the prompt that holds it",
    "attempts_get": "`task show` lists attempts",
    "attempts_escalate": "only code that runs the attempt can wait for the answer",
    "attempts_heartbeat": "`tenfour run` sends heartbeats",
    "attempts_release": "`tenfour run` gives an attempt back when it is interrupted",
    "attempts_report_exit": "`tenfour report --exit`",
    "attempts_report_result": "`tenfour report` and `run`",
    "standing_instructions_try": "the form of a rule tries what is not saved; `try` takes saved ones",
    "standing_instructions_hold": "`tenfour hook` asks at an agent's stop",
    "permissions_create": "only code that makes the call can wait for the answer",
    "permissions_take": "only code that makes the call can take the answer",
    "permissions_withdraw": "only code that makes the call knows that it no longer asks",
    "hooks_agent": "the agent's own HTTP hooks call it",
    "sessions_create": "`session import` creates one; agents' hooks and programs call it",
    "sessions_store_messages": "agents' hooks and programs send messages as they come",
    "sessions_list_messages": "the page of a session shows them",
    "sessions_get_status": "`session show` prints the state",
    "sessions_list_tools": "a tracker asks which tools it may call",
    "sessions_call_tools": "a tracker calls tools",
    "sessions_link_task": "a tracker links the tasks that it makes",
    "me_get": "`tenfour doctor` prints it",
    "stats_get": "for dashboards; the Python client has it",
}
RENDERINGS = ("renderings_", "plans_get_")  # `tenfour export` writes them as files
# no nouns yet: the pages decide about these, and trackers make calls of their own
LATER = (
    "deliveries_",
    "experiments_",
    "insight_",
    "notification_",
    "operations_",
    "patterns_list_fixes",
    "patterns_promote_fix",
    "patterns_reset_fix",
    "patterns_retire_fix",
    "policies_",
    "trackers_",
    "webhooks_",
)


def test_every_operation_has_a_verb_or_a_reason() -> None:
    known = {f"{node.name} {verb.name}" for node in read_tree() for verb in node.verbs}
    assert known == set(VERBS)
    said = set().union(*VERBS.values())
    assert not said & set(LEFT_OUT) and all(LEFT_OUT.values())
    rest = {name for name in OPERATIONS - said if not name.startswith(RENDERINGS)}
    assert {name for name in rest if not name.startswith(LATER)} == set(LEFT_OUT)
    assert said <= OPERATIONS
