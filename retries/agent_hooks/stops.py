"""Decide whether an agent may stop: by its check; a retry makes it continue."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger import optional_cache
from ledger.api.auth import actor
from ledger.errors import NotFound
from ledger.journal import Stamp
from ledger.models import Agent, Attempt
from ledger.states import FailureType
from ledger.text import describe_exit
from retries.agent_hooks.answers import Answer, block, show_message
from retries.agent_hooks.sessions import (
    HookCaller,
    describe_check,
    find_live_attempt,
    give,
)
from retries.api.attempts import claim_next_attempt
from retries.attempts.exit_codes import last_lines
from retries.attempts.finishing import Reply, finish_attempt
from retries.attempts.live_attempt import LeaseLost
from retries.attempts.report_fields import Report
from retries.holds import hold_stop

# Claude Code stops after eight consecutive blocks, whatever its hooks answer.
MOST_BLOCKS = 7
BLOCKS_SECONDS = 24 * 3600
# The key of an attempt's progress that holds how its check ended, as the agent ran it.
CHECK = "check"

ENDINGS = {
    "wait": "Tenfour: the task will be retried at {not_before}.",
    "escalated": "Tenfour: a person is asked how to continue: {url}",
    "blocked": "Tenfour: the task is blocked until a person decides: {url}",
    "failed": "Tenfour: the task has failed after its last attempt.",
    "aborted": "Tenfour: the task was aborted.",
}


def stop(
    caller: HookCaller,
    *,
    verification: Mapping[str, Any] | None,
    usage: dict[str, Any] | None,
    summary: str,
    can_check: bool,
    now: datetime,
) -> Answer:
    """Return whether the agent may stop; its attempt is reported with the check's result.

    With `can_check`, the agent's side runs the check and asks again. Otherwise, the check is what
    the agent itself ran last.
    """
    attempt = find_live_attempt(caller)
    if attempt is None:
        return {}
    check = describe_check(attempt.task.payload)
    if check and verification is None:
        if can_check:
            return {"tenfour": {"attempt": str(attempt.id), "verify": check}}
        verification = last_check(attempt)
        # Without Redis blocks are not counted, and nothing else would end them.
        if verification is None and 0 < count_block(caller) <= MOST_BLOCKS:
            return block(f"Before you stop, run the check of your task: {check['command']}")
    report = replace(report_of(check, verification, summary=summary), usage=usage)
    reply = finish_attempt(attempt.id, report, caller=caller.scoped("tasks:work"), now=now)
    return follow(caller, attempt.id, reply)


def hold(caller: HookCaller, now: datetime) -> Answer:
    """Return what keeps the agent from stopping: instructions whose rules hold the stop."""
    agent = Agent.objects.get(pk=caller.agent_id)
    stamp = Stamp(actor(caller.principal), now, caller.bearer.request_id)
    found = hold_stop(agent, session=caller.session, stamp=stamp)
    if found.held:
        count_block(caller)
        return block(found.text)
    return {}


def report_late(
    caller: HookCaller,
    *,
    attempt_id: UUID,
    verification: Mapping[str, Any] | None,
    usage: dict[str, Any] | None,
    now: datetime,
) -> Answer:
    """Report a stop that the agent's side stored while Tenfour was down; the agent is gone."""
    attempt = Attempt.objects.filter(pk=attempt_id).select_related("task").first()
    if attempt is not None:
        check = describe_check(attempt.task.payload)
        report = report_of(check, verification, summary="", is_there=False)
        report = replace(report, usage=usage)
        with suppress(LeaseLost, NotFound):  # its lease ran out, or it is another agent's
            finish_attempt(attempt_id, report, caller=caller.scoped("tasks:work"), now=now)
    return {}


def last_check(attempt: Attempt) -> Mapping[str, Any] | None:
    """Return the check's result that `note_check` stored."""
    found = attempt.progress.get(CHECK) if isinstance(attempt.progress, dict) else None
    return found if isinstance(found, dict) else None


def report_of(
    check: Mapping[str, Any] | None,
    verification: Mapping[str, Any] | None,
    *,
    summary: str,
    is_there: bool = True,
) -> Report:
    """Return the report of an attempt whose agent stops.

    A retry is due at once while the agent is there to continue.
    """
    wait = 0 if is_there else None
    if check and verification is None:
        message = f"The agent stopped without running the check: {check['command']}"
        return Report(
            status="failure",
            type=FailureType.VERIFICATION_FAILED,
            code="verification_missing",
            message=message,
        )
    if verification is None:
        return Report(summary=summary, retry_after_s=wait)
    code = verification["exit_code"]
    failed = code != (check or {}).get("expect_exit", 0)
    output = str(verification.get("output") or "")
    command = str(verification.get("command") or "")
    message = last_lines(output) or describe_exit(command, code) if failed else ""
    return Report(
        summary=summary,
        exit_code=code,
        verification=dict(verification),
        message=message,
        retry_after_s=wait,
    )


def follow(caller: HookCaller, attempt_id: UUID, reply: Reply) -> Answer:
    """Return what the agent does after the decision: continue with a retry, or stop."""
    decision = reply.decision
    if decision["decision"] == "done":
        return {}
    waits = decision["decision"] == "wait" and not decision.get("delay_s")
    if waits and count_block(caller) <= MOST_BLOCKS:
        claimed = claim_next_attempt(reply, caller.scoped("tasks:work"), after=attempt_id)
        if claimed and (given := give(claimed)):
            check = describe_check(given.task["payload"])
            held = {"tenfour": {"attempt": str(given.attempt_id), "verify": check}}
            return block(given.retry_context) | held
    escalation = decision.get("escalation") or {}
    url = f"{caller.base_url}/escalations/{escalation.get('id', '')}/"
    return show_message(
        ENDINGS[decision["decision"]].format(url=url, not_before=decision.get("not_before"))
    )


def count_block(caller: HookCaller) -> int:
    """Count this block; return how many there were since the last prompt."""
    return optional_cache.increment(block_key(caller), seconds=BLOCKS_SECONDS)


def forget_blocks(caller: HookCaller) -> None:
    """Begin to count again: a person has given the agent a new prompt."""
    optional_cache.delete(block_key(caller))


def block_key(caller: HookCaller) -> str:
    return f"hook-blocks:{caller.agent_id}:{caller.worker_id}"
