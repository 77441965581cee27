"""Tools for the agent's loop: claim a task, renew its lease, report it, release it, and ask."""

import json
from typing import Any, Literal
from uuid import UUID

from django.conf import settings
from pydantic import Field, StrictInt

from config.mcp.instruction_tools import add_instructions
from config.mcp.open_attempts import find_attempt, hooked_worker, live_attempts
from config.mcp.tools import Reply, Tool, join, perform, select
from ledger.database import optional_cache
from ledger.errors import Invalid
from ledger.schemas.shared import In
from retries.api import attempts, claims, escalations, questions
from retries.attempts.endings import SeenBy
from retries.attempts.questions import QUESTION_LENGTH
from retries.claims import WORKER_LENGTH
from retries.schemas.attempts import AskIn, HeartbeatIn, ReleaseIn, ResultIn, UsageFields
from retries.schemas.claims import ClaimIn

ATTEMPT = "the attempt's id, from claim_task or report_result; by default your only open one"
# Sessions that name no worker share this one, so a repeated claim returns the open attempt.
WORKER = "mcp"
ASKED_TO_STOP = "A person asked you to stop."
ASKED_SECONDS = 24 * 3600

NOTHING = {
    "no_task": "There is no task to do.",
    "breaker_open": "Too many consecutive attempts failed, so your tasks are on hold for a while.",
    "agent_paused": "A person has paused you, so you get no tasks.",
    "agent_waits": "Your account is at a limit, so you get no tasks until it resets.",
    "plan_paused": "The plan of your tasks is paused.",
    "type_paused": "The type of your tasks is paused.",
    "budget_used": "The budget of your tasks is used up. A person can raise it.",
    "concurrency_limit": "You already work on as many tasks as you may.",
}


class ClaimArguments(In):
    worker_id: str = Field(
        WORKER,
        max_length=WORKER_LENGTH,
        description="a name for this session, if several work for the same agent; "
        "a repeated claim returns the session's open attempt",
    )
    task: UUID | None = Field(None, description="claim only this task")


def claim_task(request: Any, given: ClaimArguments) -> Reply:
    """Get your next task and the errors of its earlier attempts; it is yours until you report it.

    Call this when you have no task, or when another tool says so.
    """
    # A hook has claimed for the session already: its attempt is this session's, too.
    worker = (given.task is None and given.worker_id == WORKER and hooked_worker(request)) or ""
    query = ClaimIn.model_validate(
        given.model_dump() | {"resume": True} | ({"worker_id": worker} if worker else {})
    )
    claim = perform(claims.claims_create, request, query)
    waiting = claim["pending_instructions"]
    if not claim["data"]:
        why = NOTHING.get(claim["reason"], claim["reason"])
        empty = Reply(
            f"{why} {describe_due(claim)}",
            select(claim, "reason", "retry_after_s", "next_due_in_ms"),
        )
        return add_instructions(empty, request, waiting=waiting)
    claimed = claim["data"][0]
    attempt = claimed["attempt"]
    opening = f"You have attempt {attempt['number']} of {attempt['attempt_limit']} of this task."
    if attempt["resumed"]:
        opening = f"You still have this task: attempt {attempt['number']} is open."
    given_task = Reply(
        f"{opening} {describe_work(claimed['task'], attempt)}",
        {"attempt": attempt, "task": outline_task(claimed["task"]), "prompt": claimed["prompt"]},
        shown=claimed["prompt"],
    )
    return add_instructions(given_task, request, waiting=waiting)


def describe_work(task: dict[str, Any], attempt: dict[str, Any]) -> str:
    verify = verify_command(task)
    run = f", run `{verify}`, and pass its exit code and its output to" if verify else ", then call"
    return (
        f"Do the task{run} report_result with attempt {attempt['id']}. "
        f"Call heartbeat at least every {attempt['heartbeat_every_s']} seconds until then."
    )


def verify_command(task: dict[str, Any]) -> str:
    payload = task["payload"]
    verify = payload.get("verify") if isinstance(payload, dict) else None
    return str(verify.get("command") or "") if isinstance(verify, dict) else ""


def outline_task(task: dict[str, Any]) -> dict[str, Any]:
    # The prompt contains what is left out here.
    return select(
        task, "id", "ref", "plan", "title", "type", "state", "attempts", "attempt_limit", "version"
    )


def describe_due(claim: dict[str, Any]) -> str:
    if (due := claim["next_due_in_ms"]) is not None:
        return f"The next retry is due in {-(-due // 1000)} seconds: call claim_task then."
    return (
        f"Call claim_task again in {claim['retry_after_s']} seconds or later, or end your turn "
        "if you have nothing else to do."
    )


class HeartbeatArguments(UsageFields, In):
    attempt: UUID | None = Field(None, description=ATTEMPT)
    message: str = Field(
        "", max_length=2000, description="what you are doing, for people who watch"
    )
    percent: StrictInt | None = Field(None, ge=0, le=100)


def heartbeat(request: Any, given: HeartbeatArguments) -> Reply:
    """Keep your task while you work on it; the reply says whether to stop.

    Call this at least as often as claim_task says, with all tokens since the task began, if known.
    """
    progress = select(given.model_dump(), "message", "percent")
    body = HeartbeatIn.model_validate({"progress": progress or None, "usage": usage_of(given)})
    beat = perform(attempts.attempts_heartbeat, request, find_attempt(request, given.attempt), body)
    if beat["abort_requested"]:
        who = "A budget is used up." if beat["stop_reason"] == "budget_used" else ASKED_TO_STOP
        text = (
            f"{who} Stop now and call report_result with status 'failure' "
            "and a summary of where things stand."
        )
    else:
        text = f"The task is yours until {beat['lease_expires_at']}. Continue."
    waiting = beat.pop("pending_instructions")
    return add_instructions(Reply(text, beat), request, waiting=waiting)


def usage_of(given: UsageFields) -> dict[str, Any]:
    return select(given.model_dump(), *UsageFields.model_fields)


class ReportArguments(UsageFields, In):
    attempt: UUID | None = Field(None, description=ATTEMPT)
    status: Literal["success", "failure", "blocked"] = Field(
        description="'blocked' if you can't continue without a person"
    )
    summary: str = Field("", description="what you did, or what went wrong, in a sentence or two")
    exit_code: StrictInt | None = Field(
        None, ge=-(2**31), le=2**31 - 1, description="of the task's verify command, if you ran it"
    )
    output: str = Field("", description="the output of the verify command or of the failed step")
    failure_code: str = Field(
        "",
        max_length=64,
        description="the kind of failure, such as assertion, permission_denied, "
        "service_unavailable, conflicting_requirements, or impossible",
    )
    suggested_fix: str = Field("", description="what the next attempt should try")
    files: list[str] = Field(
        default_factory=list, max_length=500, description="paths of the files that you changed"
    )
    learnings: list[str] = Field(
        default_factory=list, max_length=100, description="facts that help the next attempt"
    )


def report_result(request: Any, given: ReportArguments) -> Reply:
    """Report how an attempt ended; the reply says what comes next, often the next attempt.

    Call this once when you finish or give up, after you ran the verify command if there is one.
    """
    attempt = find_attempt(request, given.attempt)
    if given.status == "success" and given.exit_code is None:
        ask_for_check(request, attempt)
    decision = perform(attempts.attempts_report_result, request, attempt, result_of(given))
    names = (
        "decision",
        "reason",
        "verdict",
        "not_before",
        "delay_s",
        "escalation",
        "task",
        "retry",
    )
    data = select(decision, *names, "prompt")
    return Reply(next_step(decision), data, shown=data.get("prompt", ""))


def ask_for_check(request: Any, id: UUID) -> None:
    """Refuse a success without the result of the task's check, once for each attempt."""
    attempt = live_attempts(request).filter(pk=id).select_related("task").first()
    command = verify_command({"payload": attempt.task.payload}) if attempt else ""
    # Without Redis, nothing would end the refusals.
    if command and optional_cache.increment(f"mcp-check:{id}", seconds=ASKED_SECONDS) == 1:
        raise Invalid(
            "/exit_code",
            f"Run `{command}` to its end first, and pass its exit code and its output. If you "
            "can't run it, call report_result again without them.",
        )


def result_of(given: ReportArguments) -> ResultIn:
    verification, checks = None, []
    if given.exit_code is not None:
        verification = {"exit_code": given.exit_code, "output": given.output}
        # The model says so; no program has seen it.
        checks = [{"exit_code": given.exit_code, "seen_by": SeenBy.AGENT}]
    failure = {
        "code": given.failure_code,
        "message": "" if given.status == "success" else given.summary,
        "details": "" if verification else given.output,
        "suggested_fix": given.suggested_fix,
    }
    report = {
        "status": given.status,
        "summary": given.summary,
        "verification": verification,
        "checks": checks,
        "failure": failure if any(failure.values()) else None,
        "files_modified": [{"path": path} for path in given.files],
        "learnings": given.learnings,
        "usage": usage_of(given),
        "reclaim": True,
    }
    return ResultIn.model_validate(report)


def next_step(decision: dict[str, Any]) -> str:
    why = decision["reason"].replace("_", " ")
    match decision["decision"]:
        case "done":
            return f"The task is done ({why}). Call claim_task for the next one."
        case "retry":
            retry = decision["retry"]
            return (
                f"The attempt failed. Attempt {retry['number']} of {retry['attempt_limit']} is "
                f"open for you: read the retry context, fix the cause, run the verify command if "
                f"there is one, and call report_result with attempt {retry['attempt']}."
            )
        case "wait":
            return (
                f"The attempt failed, and the task is retried after {decision['not_before']}. "
                "Call claim_task then."
            )
        case "escalated":
            escalation = decision.get("escalation") or {}
            return (
                f"A person decides now ({why}): {escalation.get('url', '')} Stop working on this "
                f"task. Call get_escalation with id {escalation.get('id', '')} for the answer, or "
                "claim_task for another task."
            )
        case "blocked":
            return f"The task is blocked ({why}). Call claim_task for another one."
        case "aborted":
            return "The task was aborted by a person. Stop working on it."
    return f"The task failed permanently ({why}). Stop working on it; call claim_task for another."


class ReleaseArguments(In):
    attempt: UUID | None = Field(None, description=ATTEMPT)
    reason: Literal["shutdown", "wrong_agent", "user_interrupt"] = "shutdown"
    note: str = Field("", max_length=2000, description="what the next agent should know")


def release_task(request: Any, given: ReleaseArguments) -> Reply:
    """Give a task back unfinished, without using up one of its attempts.

    Call this if you have to stop, or if the task is not for you.
    """
    body = ReleaseIn(reason=given.reason, note=given.note)
    task = perform(attempts.attempts_release, request, find_attempt(request, given.attempt), body)
    return Reply(f"The task is {task['state']} again. Stop working on it.", outline_task(task))


class AskArguments(In):
    attempt: UUID | None = Field(None, description=ATTEMPT)
    question: str = Field(
        min_length=1, max_length=QUESTION_LENGTH, description="with all that a person needs to know"
    )
    options: list[str] = Field(
        default_factory=list, max_length=10, description="short answers to choose from"
    )


def ask_human(request: Any, given: AskArguments) -> Reply:
    """Ask a person to decide; this ends the attempt without counting it.

    Call this if you need a decision or a permission that you can't give yourself.
    """
    options = [{"name": name} for name in given.options]
    body = AskIn.model_validate({"question": given.question, "options": options})
    asked = perform(
        questions.attempts_escalate, request, find_attempt(request, given.attempt), body
    )
    text = (
        f"A person was asked: {asked['url']} The attempt is over, so don't report it. Call "
        f"get_escalation with id {asked['id']} for the answer, every "
        f"{settings.TENFOUR['POLL_SECONDS']} seconds or less often; meanwhile you can claim "
        "other tasks."
    )
    return Reply(text, outline_escalation(asked))


class EscalationArguments(In):
    id: UUID = Field(description="from ask_human or report_result")


def get_escalation(request: Any, given: EscalationArguments) -> Reply:
    """Read what a person answered to a question or a failed task.

    Call this after ask_human, or after report_result says that a person decides.
    """
    escalation = perform(escalations.escalations_get, request, given.id)
    return Reply(describe_answer(escalation), outline_escalation(escalation))


def outline_escalation(escalation: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "state", "reason", "title", "task", "question", "choices", "url", "resolution")
    return select(escalation, *names)


def describe_answer(escalation: dict[str, Any]) -> str:
    # A person's own text stands alone.
    answer = escalation["resolution"]
    if answer is None:
        if escalation["state"] == "open":
            wait = settings.TENFOUR["POLL_SECONDS"]
            return f"No answer yet. Call get_escalation again in {wait} seconds or later."
        return f"The question is {escalation['state']}: it was not answered. Call claim_task."
    said = answer["instruction"] or ""
    if answer["response"]:
        said = json.dumps(answer["response"], ensure_ascii=False)
    opening = f"{answer['by']['name']} answered '{answer['action']}'" + (":" if said else ".")
    retried = answer["action"] in ("retry", "fix", "answer")
    next_action = "The task is queued again: call claim_task to continue with it."
    return join(opening, said, next_action if retried else "Stop working on the task.")


TOOLS = (
    Tool(claim_task, claims.claims_create, "Claim a task", is_idempotent=True),
    Tool(
        heartbeat, attempts.attempts_heartbeat, "Keep the task", is_idempotent=True, is_cleaned=True
    ),
    Tool(
        report_result,
        attempts.attempts_report_result,
        "Report the result",
        is_idempotent=True,
        is_cleaned=True,
    ),
    Tool(release_task, attempts.attempts_release, "Give the task back", is_idempotent=True),
    Tool(ask_human, questions.attempts_escalate, "Ask a person"),
    Tool(get_escalation, escalations.escalations_get, "Read a person's answer", is_read_only=True),
)
