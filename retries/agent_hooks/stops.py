"""Decide whether an agent may stop: by its check; a retry makes it continue."""

import posixpath
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.api.auth import actor
from ledger.database import optional_cache
from ledger.errors import InvalidTransition, NotFound
from ledger.journal import Stamp
from ledger.models import Agent, Attempt
from ledger.states import EvidenceLevel, FailureType, Way
from ledger.tokens import TrustedCaller
from ledger.values.text import describe_exit, truncate
from retries.agent_hooks.answers import TEXT_LENGTH, Answer, block, show_message
from retries.agent_hooks.events import HookEvent
from retries.agent_hooks.reaching import GAP, STOPPED, Step, deliver, describe_loss, tell_loss
from retries.agent_hooks.sessions import (
    LEASE_S,
    HookCaller,
    describe_check,
    find_attempt,
    give,
    read_calls,
    renew,
    take_task,
)
from retries.api.attempts import claim_next_attempt
from retries.attempts.checks.proposed import propose_check, read_level
from retries.attempts.checks.reported import CHECK_FIELDS, Check, Tree, is_same_tree, make_check
from retries.attempts.endings import SeenBy, Unknown
from retries.attempts.exit_codes import last_lines
from retries.attempts.finishing import Reply, finish_attempt
from retries.attempts.live_attempt import LeaseLost
from retries.attempts.questions import QUESTION_LENGTH, ask
from retries.attempts.report_fields import Report
from retries.escalations.lifecycle import Question
from retries.tasks.holds import hold_stop

# Claude Code stops after eight consecutive blocks, whatever its hooks answer.
MOST_BLOCKS = 7
BLOCKS_SECONDS = 24 * 3600
# `tenfour init` gives the hook of a Stop 900 seconds.
MOST_CHECK_S = 840
# the fields of a verification, as reports contain them
RAN = ("command", "exit_code", "duration_s", "output")
# The key of an attempt's progress that holds how its check ended, as the agent ran it.
CHECK = "check"
# Another key: the check that was proposed where the task declares none.
PROPOSED = "proposed_check"
# Another key: whether the session has changed a file.
CHANGED = "changed_files"

# Why the result of the check is not known.
UNKNOWN = {
    Unknown.BACKGROUND: "The check of your task was started in the background, and its result is "
    "not known. Wait until it ends and read its result, or run it in the foreground. ",
    Unknown.INTERRUPTED: "The check of your task was interrupted. ",
    Unknown.NOT_REPORTED: "The result of your task's check was not reported. ",
    Unknown.HIDDEN: "The exit code of your task's check was hidden by the rest of the line that "
    "ran it, or the check ran in another folder. ",
}
UNKNOWN[Unknown.MOVED_TO_BACKGROUND] = UNKNOWN[Unknown.BACKGROUND]
MESSAGE_LENGTH = 2000
# A fenced block; reads at most MESSAGE_LENGTH characters.
CODE = re.compile(r"```[^`]{0,2000}```")
# A sentence that asks; reads at most MESSAGE_LENGTH characters.
QUESTION = re.compile(r"[^.!?\n]{2,300}\?(?=[\s)\"'*]|$)")
# This reads at most MESSAGE_LENGTH characters.
COURTESY = re.compile(r"\b(?:anything|something) else\b", re.I)
PROPOSAL = (
    "Your task declares no check, and there is no proof yet that it is done. Before you stop, run "
    "this check, which similar tasks have passed: {command}"
)
ASKED = "Tenfour: the question is in the inbox: {url}"
AGAIN = "Attempt {number} of your task had ended without its result, and the task is yours again."

ENDINGS = {
    "wait": "Tenfour: the task will be retried at {not_before}.",
    "escalated": "Tenfour: a person is asked how to continue: {url}",
    "blocked": "Tenfour: the task is blocked until a person decides: {url}",
    "failed": "Tenfour: the task has failed after its last attempt.",
    "aborted": "Tenfour: the task was aborted.",
}


def stop(
    caller: HookCaller,
    event: HookEvent,
    *,
    verification: Mapping[str, Any] | None,
    usage: dict[str, Any] | None,
    tree: Tree | None,
    can_check: bool,
    folder: str,
    now: datetime,
) -> Answer:
    """Return whether the agent may stop; report its attempt with the check's result.

    With `can_check`, the agent's side runs the check and asks again, unless a hook has seen it pass
    on these files. Otherwise, the check is the one that the agent itself ran last. While something
    runs in the background, the end of a turn is no result. A turn that ends with a question, and
    changed no file, asks a person.
    """
    attempt = find_attempt(caller)
    if attempt is None or attempt.outcome is not None:
        if attempt is None:
            return {}
        return continue_lost(caller, attempt, event, verification=verification, now=now)
    if attempt.task.abort_requested_at:
        return end_aborted(caller, attempt, now=now)
    check = describe_check(attempt.task.payload)
    seen = last_check(attempt)
    if waits_for_background(event, check, seen):
        renew(attempt, caller=caller, now=now)
        return {}
    question = "" if has_changed_files(attempt) else find_question(event.last_message)
    if check is None and not question and (asked := ask_for_proof(caller, attempt, now=now)):
        return asked
    if check and verification is None:
        if can_check and fits_hook(check) and not has_passed(check, seen, tree):
            return {"tenfour": {"attempt": str(attempt.id), "verify": check}}
        verification = find_known_check(attempt)
        # Without Redis blocks are not counted, and nothing else would end them.
        if verification is None and not question and 0 < count_block(caller) <= MOST_BLOCKS:
            return block(ask_for_check(check, seen, folder=folder))
    report = report_of(check, verification, summary=event.last_message)
    report = replace(
        report, usage=usage, checks=checks_of(verification, seen, tree=tree, now=now), tree=tree
    )
    if question and (verification is None or report.message):
        return ask_person(caller, attempt, event.last_message, now=now)
    reply = finish_attempt(attempt.id, report, caller=caller.scoped("tasks:work"), now=now)
    return follow(caller, attempt.id, reply)


def end_aborted(caller: HookCaller, attempt: Attempt, *, now: datetime) -> Answer:
    # A person has aborted the task, so its check does not matter.
    report = Report(status="failure", message=STOPPED)
    reply = finish_attempt(attempt.id, report, caller=caller.scoped("tasks:work"), now=now)
    return follow(caller, attempt.id, reply)


def fits_hook(check: Mapping[str, Any]) -> bool:
    # The agent itself runs a check that takes longer than the hook may.
    return int(check.get("timeout_s") or 0) <= MOST_CHECK_S


def has_passed(check: Mapping[str, Any], seen: Mapping[str, Any] | None, tree: Tree | None) -> bool:
    if not seen or seen.get("exit_code") != check.get("expect_exit", 0):
        return False
    return bool(tree and seen.get("tree") and is_same_tree(seen["tree"], tree))


def waits_for_background(
    event: HookEvent, check: Mapping[str, Any] | None, seen: Mapping[str, Any] | None
) -> bool:
    # Once the check has passed, a command may run for as long as the session, as a server does.
    running = [task for task in event.background if task.is_running]
    if check and seen and seen.get("exit_code") == check.get("expect_exit", 0):
        running = [task for task in running if not task.is_command]
    return bool(running)


def ask_for_check(check: Mapping[str, Any], seen: Mapping[str, Any] | None, *, folder: str) -> str:
    unknown = str(seen.get("unknown") or "") if seen else ""
    why = UNKNOWN[Unknown(unknown)] if unknown else ""
    if unknown == Unknown.HIDDEN:
        where = posixpath.normpath(posixpath.join(folder, str(check.get("cwd") or "")))
        why += "Run the check by itself" + (f", in {where}. " if folder else ". ")
    return f"{why}Before you stop, run the check of your task: {check['command']}"


def ask_for_proof(caller: HookCaller, attempt: Attempt, *, now: datetime) -> Answer:
    """Return the answer that asks once for proof of a claim; empty if none is due."""
    # A proposed check is stored with the attempt: it counts if it passes.
    progress = dict(attempt.progress) if isinstance(attempt.progress, dict) else {}
    if PROPOSED in progress or read_level(attempt.task) == EvidenceLevel.RECORD:
        return {}
    command = propose_check(attempt.task)
    renew(attempt, caller=caller, progress=progress | {PROPOSED: command}, now=now)
    if not command:
        return {}
    # The agent's side reads the tree when this command has run.
    held = {"attempt": str(attempt.id), "verify": None, "proposed": command}
    return block(PROPOSAL.format(command=command)) | {"tenfour": held}


def ask_person(caller: HookCaller, attempt: Attempt, message: str, *, now: datetime) -> Answer:
    # The answer comes with the next prompt.
    agent = Agent.objects.get(pk=caller.agent_id)
    trusted = TrustedCaller(
        actor(caller.principal), agent=agent, request_id=caller.bearer.request_id
    )
    question = Question(text=truncate(message, QUESTION_LENGTH), choices=[])
    try:
        opened = ask(attempt.id, question, caller=trusted, now=now)
    except (LeaseLost, InvalidTransition):
        return {}  # it ended meanwhile, or a person has aborted it: the next event tells it
    return show_message(ASKED.format(url=f"{caller.base_url}/escalations/{opened.id}/"))


def continue_lost(
    caller: HookCaller,
    attempt: Attempt,
    event: HookEvent,
    *,
    verification: Mapping[str, Any] | None,
    now: datetime,
) -> Answer:
    """Give a session its lost task again, so that its work counts."""
    # If another session has the task, this session's work is recorded as late.
    if describe_loss(attempt) is None:
        return {}
    given = take_task(caller, task="", now=now)
    if given is None:
        check = describe_check(attempt.task.payload)
        found = verification or find_known_check(attempt)
        report = report_of(check, found, summary=event.last_message)
        with suppress(LeaseLost):  # which records the report
            finish_attempt(attempt.id, report, caller=caller.scoped("tasks:work"), now=now)
        loss = tell_loss(attempt)
        return show_message(f"Tenfour: {loss}") if loss else {}
    check = describe_check(given.task["payload"])
    held = {"tenfour": {"attempt": str(given.attempt_id), "verify": check}}
    text = given.retry_context or given.prompt
    return block(f"{AGAIN.format(number=attempt.number)}\n\n{text}") | held


def hold(caller: HookCaller, now: datetime) -> Answer:
    # Instructions whose rules hold the stop keep the agent, and so do instructions that have not
    # reached it.
    agent = Agent.objects.get(pk=caller.agent_id)
    stamp = Stamp(actor(caller.principal), now, caller.bearer.request_id)
    call = read_calls(caller)
    found = hold_stop(agent, session=caller.session_name, call=call, stamp=stamp)
    texts = [found.text] if found.held else []
    # After the last block nothing is delivered, but what the agent got before has its receipt.
    is_full = count_blocks(caller) >= MOST_BLOCKS
    room = 0 if is_full else TEXT_LENGTH - sum(map(len, texts))
    texts += deliver(caller, Step(Way.STOP, now, began=now, call=call), room=room)
    if not texts:
        return {}
    count_block(caller)
    return block(GAP.join(texts))


def report_late(
    caller: HookCaller,
    *,
    attempt_id: UUID,
    verification: Mapping[str, Any] | None,
    usage: dict[str, Any] | None,
    tree: Tree | None,
    now: datetime,
) -> Answer:
    # The agent's side stored this stop while Tenfour was down; the agent is gone.
    attempt = Attempt.objects.filter(pk=attempt_id).select_related("task").first()
    if attempt is not None:
        check = describe_check(attempt.task.payload)
        report = report_of(check, verification, summary="", is_there=False)
        checks = checks_of(verification, last_check(attempt), tree=tree, now=now)
        report = replace(report, usage=usage, checks=checks, tree=tree)
        with suppress(LeaseLost, NotFound):  # its lease ran out, or it is another agent's
            finish_attempt(attempt_id, report, caller=caller.scoped("tasks:work"), now=now)
    return {}


def last_check(attempt: Attempt) -> Mapping[str, Any] | None:
    # `note_check` stored it; its exit code may be unknown.
    found = attempt.progress.get(CHECK) if isinstance(attempt.progress, dict) else None
    return found if isinstance(found, dict) else None


def checks_of(
    verification: Mapping[str, Any] | None,
    seen: Mapping[str, Any] | None,
    *,
    tree: Tree | None,
    now: datetime,
) -> list[Check]:
    # The hooks have seen `seen`, and the agent's side ran `verification`.
    checks = []
    if seen and seen.keys() >= CHECK_FIELDS:
        names = [*CHECK_FIELDS, *(["is_proposed"] if seen.get("is_proposed") else [])]
        checks.append({name: seen[name] for name in names})
    if verification and verification is not seen:
        command = str(verification.get("command") or "")
        ended: dict[str, Any] = {
            name: verification.get(name) for name in ("exit_code", "duration_s")
        }
        checks.append(make_check(command, **ended, seen_by=SeenBy.CLIENT, at=now, tree=tree))
    return checks


def find_known_check(attempt: Attempt) -> Mapping[str, Any] | None:
    seen = last_check(attempt)
    return seen if seen and seen.get("exit_code") is not None else None


def has_changed_files(attempt: Attempt) -> bool:
    return isinstance(attempt.progress, dict) and bool(attempt.progress.get(CHANGED))


def find_question(message: str) -> str:
    """Return the question to a person in a message's last paragraph; empty without one.

    >>> find_question("I looked around.\\n\\nWhich database should I use? I have not started yet.")
    'Which database should I use?'
    >>> find_question("Done. Is there anything else?")
    ''
    """
    last = message[-MESSAGE_LENGTH:]
    paragraphs = [text for text in CODE.sub("", last).split("\n\n") if text.strip()]
    found = QUESTION.findall(paragraphs[-1]) if paragraphs else []
    asked = [text.strip() for text in found if not COURTESY.search(text)]
    return asked[-1] if asked else ""


def report_of(
    check: Mapping[str, Any] | None,
    verification: Mapping[str, Any] | None,
    *,
    summary: str,
    is_there: bool = True,
) -> Report:
    # A retry is due at once while the agent is there to continue.
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
        verification={name: verification[name] for name in RAN if name in verification},
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
        scoped = caller.scoped("tasks:work")
        claimed = claim_next_attempt(reply, scoped, after=attempt_id, lease_s=LEASE_S)
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
    """Count this block; return the number of blocks since the last prompt."""
    return optional_cache.increment(block_key(caller), seconds=BLOCKS_SECONDS)


def count_blocks(caller: HookCaller) -> int:
    return optional_cache.read(block_key(caller)) or 0


def forget_blocks(caller: HookCaller) -> None:
    # A person has given the agent a new prompt.
    optional_cache.delete(block_key(caller))


def block_key(caller: HookCaller) -> str:
    return f"hook-blocks:{caller.agent_id}:{caller.worker_id}"
