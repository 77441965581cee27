"""The tables that hold a project's rows, and how its rows are found in each."""

from collections.abc import Mapping

IN_PROJECT = "project_id = %(project)s"
OF_AGENT = f"agent_id in (select id from ledger_agent where {IN_PROJECT})"
OF_TASK = f"task_id in (select id from ledger_task where {IN_PROJECT})"
OF_SESSION = f"session_id in (select id from ledger_session where {IN_PROJECT})"
OF_PATTERN = f"pattern_id in (select id from retries_failurepattern where {IN_PROJECT})"
OF_RULE = f"rule_id in (select id from retries_notificationrule where {IN_PROJECT})"
OF_CHANNEL = f"channel_id in (select id from retries_channel where {IN_PROJECT})"
OF_ATTEMPT = f"""attempt_id in (select a.id from ledger_attempt a
    join ledger_task t on t.id = a.task_id where t.{IN_PROJECT})"""
OF_FAILURE = f"""failure_id in (select f.id from ledger_failure f
    join ledger_task t on t.id = f.task_id where t.{IN_PROJECT})"""
# Operations of people can span projects; those of this one alone go with it.
ALONE = "project_ids = array[%(project)s::uuid]"

# table -> the condition for its rows; a table stands after the tables that it refers to
TABLES: Mapping[str, str] = {
    "ledger_project": "id = %(project)s",
    "ledger_membership": IN_PROJECT,
    "ledger_invitation": IN_PROJECT,
    "ledger_savedview": IN_PROJECT,
    "ledger_marker": IN_PROJECT,
    "ledger_agent": IN_PROJECT,
    "ledger_poolmember": OF_AGENT,
    "ledger_accountwindow": IN_PROJECT,
    "ledger_dailytaskcount": OF_AGENT,
    "ledger_breaker": OF_AGENT,
    "retries_acktarget": OF_AGENT,
    "ledger_token": IN_PROJECT,
    "ledger_idempotencykey": f"token_id in (select id from ledger_token where {IN_PROJECT})",
    "ledger_plan": IN_PROJECT,
    "retries_tasktarget": f"({IN_PROJECT} or {OF_AGENT})",
    "ledger_standinginstruction": IN_PROJECT,
    "ledger_task": IN_PROJECT,
    "ledger_budget": IN_PROJECT,
    "ledger_modelprice": IN_PROJECT,
    "ledger_taskwords": OF_TASK,
    "ledger_taskvalue": OF_TASK,
    "ledger_need": OF_TASK,
    "ledger_missingneed": IN_PROJECT,
    "ledger_attempt": OF_TASK,
    "retries_storedcontext": OF_ATTEMPT,
    "retries_attemptdiff": OF_ATTEMPT,
    "retries_attemptoutput": OF_ATTEMPT,
    "retries_attempttrace": IN_PROJECT,
    "retries_attemptspan": OF_ATTEMPT,
    "ledger_failure": OF_TASK,
    "ledger_deadletter": IN_PROJECT,
    "ledger_instruction": IN_PROJECT,
    "ledger_instructionwords": (
        f"instruction_id in (select id from ledger_instruction where {IN_PROJECT})"
    ),
    "retries_permissionrequest": IN_PROJECT,
    "retries_permissionrule": IN_PROJECT,
    "retries_rota": IN_PROJECT,
    "retries_escalationpolicy": IN_PROJECT,
    "retries_escalation": IN_PROJECT,
    "retries_failurepattern": IN_PROJECT,
    "retries_failurecount": OF_PATTERN,
    "retries_grouped": OF_FAILURE,
    "retries_pastfailures": OF_PATTERN,
    "retries_pastfixtry": OF_PATTERN,
    "retries_fixverdict": OF_PATTERN,
    "ledger_session": IN_PROJECT,
    "ledger_sessiontask": OF_SESSION,
    "ledger_sessionbatch": OF_SESSION,
    "ledger_message": OF_SESSION,
    "retries_retrypolicy": IN_PROJECT,
    "retries_contextexperiment": IN_PROJECT,
    "retries_insightfigure": IN_PROJECT,
    "retries_outcomerate": IN_PROJECT,
    "retries_planforecast": IN_PROJECT,
    "retries_metrictotal": IN_PROJECT,
    "retries_activitycount": IN_PROJECT,
    "retries_durationcount": IN_PROJECT,
    "retries_channel": IN_PROJECT,
    "retries_notificationrule": IN_PROJECT,
    "retries_notificationthread": f"({IN_PROJECT} or {OF_RULE})",
    "retries_delivery": f"({IN_PROJECT} or {OF_CHANNEL})",
    "retries_deliverytry": f"""delivery_id in (
        select id from retries_delivery where {IN_PROJECT} or {OF_CHANNEL})""",
    "retries_deliverytally": IN_PROJECT,
    "retries_ongoingcondition": IN_PROJECT,
    "retries_operation": ALONE,
    "retries_operationitem": f"operation_id in (select id from retries_operation where {ALONE})",
    "ledger_event": IN_PROJECT,
}
# computed from other rows
DERIVED = ("ledger_taskwords", "ledger_taskvalue", "ledger_instructionwords")
# An export has no secrets, not even hashed or encrypted.
SECRETS: Mapping[str, tuple[str, ...]] = {
    "ledger_token": ("digest",),
    "ledger_invitation": ("digest",),
    "ledger_idempotencykey": ("body", "fingerprint"),
    "retries_channel": ("address", "signing_secrets"),
    "retries_escalation": ("sealed",),
    "retries_operation": ("sealed",),
}
