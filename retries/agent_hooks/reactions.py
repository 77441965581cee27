"""The rules: what each event of an agent's session causes, and the answer of its hook."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from ledger import journal
from ledger.api.auth import actor
from ledger.database import optional_cache
from ledger.journal import Kind, Stamp
from ledger.models import Attempt
from ledger.secrets.notes import clean_note
from ledger.secrets.redaction import redacted, stripped
from ledger.signal_matching import report_signal
from ledger.standing_instructions.editing import SESSION_START
from ledger.states import Way
from ledger.values.text import truncate
from ledger.values.timestamps import format_timestamp
from retries.agent_hooks import permissions, stops
from retries.agent_hooks.answers import TEXT_LENGTH, Answer, add_context
from retries.agent_hooks.check_runs import find_folder, find_in_line, find_run, may_change_files
from retries.agent_hooks.events import (
    SHELL_TOOL,
    HookEvent,
    Notice,
    ToolSignal,
    command_signal,
    ending_of,
    read_notices,
    shell_line,
    signals_of,
    text_in,
)
from retries.agent_hooks.reaching import GAP, NO_STEP, Step, deliver, reach, refuse
from retries.agent_hooks.sessions import (
    HEARTBEAT_EVERY,
    SESSION_SECONDS,
    HookCaller,
    count_call,
    describe_check,
    find_attempt,
    find_live_attempt,
    is_unused,
    note_folder,
    read_folder,
    renew,
    take_task,
)
from retries.agent_hooks.shell_lines import ShellCommand, read_commands
from retries.agent_hooks.shell_results import CLAUDE
from retries.attempts import releases
from retries.attempts.checks.reported import Tree, make_check
from retries.attempts.endings import SeenBy, Unknown
from retries.attempts.evidence import find_evidence
from retries.attempts.finishing import finish_attempt
from retries.attempts.live_attempt import LeaseLost
from retries.attempts.report_fields import Report
from retries.permissions.shell_grammar import LINE_LENGTH

MESSAGE_LENGTH = 200
OUTPUT_LENGTH = 4000
# Notifications that ask for nothing.
QUIET = {"auth_success", "elicitation_complete", "elicitation_response"}
# A waiting agent sends its notification repeatedly.
ATTENTION_SECONDS = 60
TYPE_LENGTH = 64
BACKGROUND_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class LocalSide:
    """The fields that `tenfour hook` adds to an event; the zero-install hooks add none."""

    # The task that the session was started for, by id or ref.
    task: str = ""
    # The agent runs inside `tenfour run`, which claims, verifies and reports.
    is_managed: bool = False
    # The folder that paths are relative to.
    folder: str = ""
    verification: Mapping[str, Any] | None = None
    # Tenfour was down when the event happened: the agent does not wait for this answer.
    is_late: bool = False
    # How long ago a late event happened, by the agent's clock.
    age_s: int = 0
    # The attempt that a late event is about.
    attempt: UUID | None = None
    # The tokens of the attempt, from the agent's transcript.
    usage: dict[str, Any] | None = None
    # About a request for leave: how long the agent waits, and the request's id if it has one.
    waiting: permissions.Waiting | None = None
    # The files at the time of the event: their commit and a digest of what differs from it.
    tree: Tree | None = None


@dataclass(frozen=True, slots=True)
class Happening:
    """An event with all that the rules know about it; `local` is None without `tenfour hook`."""

    event: HookEvent
    local: LocalSide | None
    caller: HookCaller
    now: datetime

    @property
    def is_managed(self) -> bool:
        return self.local is not None and self.local.is_managed

    @property
    def is_late(self) -> bool:
        return self.local is not None and self.local.is_late

    @property
    def at(self) -> datetime:
        age_s = self.local.age_s if self.local else 0
        return self.now - timedelta(seconds=age_s if self.is_late else 0)

    @property
    def works(self) -> bool:
        """Return whether these rules claim, verify, and report the session's task."""
        return not self.is_managed and self.caller.may("tasks:work")


def react(happening: Happening) -> Answer:
    rule = RULES.get(happening.event.name)
    return rule(happening) if rule else {}


def begin_session(happening: Happening) -> Answer:
    # Give only the task that the session was started for or already has: another one is claimed at
    # its first prompt. Claude Code's HTTP hooks never send this event.
    local = happening.local
    if local and local.is_late:
        return {}
    report_session(happening)
    # A session that is only opened claims nothing: no prompt may ever follow.
    is_named = local is not None and local.task
    if not happening.works or not (is_named or find_live_attempt(happening.caller)):
        return {}
    prompt, held = take_prompt(happening)
    return add_context(happening.event.name, prompt) | held


def report_session(happening: Happening) -> None:
    # Standing instructions can wait for the start of a session.
    event, caller = happening.event, happening.caller
    report_signal(
        SESSION_START,
        {"source": event.source},
        caller=caller.scoped("signals:write"),
        session=event.session,
        now=happening.now,
    )


def is_first_turn(caller: HookCaller) -> bool:
    """Return whether the session sends its first prompt; False without Redis."""
    key = f"hook-session:{caller.agent_id}:{caller.worker_id}"
    return optional_cache.increment(key, seconds=SESSION_SECONDS) == 1


def take_prompt(happening: Happening) -> tuple[str, Answer]:
    task = happening.local.task if happening.local else ""
    given = take_task(happening.caller, task=task, now=happening.now)
    if given is None:
        return "", {}
    check = describe_check(given.task["payload"])
    return given.prompt, {"tenfour": {"attempt": str(given.attempt_id), "verify": check}}


def begin_turn(happening: Happening) -> Answer:
    """Deliver instructions; give a task to a session without one, or the answer to its question."""
    local, caller = happening.local, happening.caller
    if local and local.is_late:
        return {}
    notices = read_notices(happening.event)
    for notice in notices:
        note_end(notice, happening)
    if not notices:
        stops.forget_blocks(caller)
        permissions.end_session(caller, happening.event, happening.now)
    if local is None and is_first_turn(caller):
        report_session(happening)
        note_folder(caller, happening.event.cwd)
    prompt, held = "", Answer()
    live = find_live_attempt(caller) if happening.works else None
    if live:
        renew(live, caller=caller, now=happening.now)
    elif happening.works:
        prompt, held = take_prompt(happening)
    step = Step(Way.PROMPT, happening.now, began=NO_STEP)
    texts = [prompt, *deliver(caller, step, room=TEXT_LENGTH - len(prompt))]
    return add_context(happening.event.name, GAP.join(filter(None, texts))) | held


def note_end(notice: Notice, happening: Happening) -> None:
    # Only now is the exit code of a background command known.
    caller = happening.caller
    attempt = find_live_attempt(caller) if happening.works else None
    started = optional_cache.read(background_key(caller, notice.call))
    if isinstance(started, str) and notice.exit_code is not None:
        found = read_commands(started, notice.exit_code)
        report_signals(map(command_signal, found), happening, attempt)
    seen = stops.last_check(attempt) if attempt else None
    if attempt and seen and seen.get("call") == notice.call and notice.exit_code is not None:
        line = started if isinstance(started, str) else ""
        ran = find_in_line(line, seen["command"], notice.exit_code)
        code = ran.exit_code if ran else None
        unknown = str(Unknown.HIDDEN) if code is None else None
        check = dict(seen) | {"exit_code": code, "unknown": unknown, "output": ""}
        check["at"] = format_timestamp(happening.now)
        progress = dict(attempt.progress or {}) | {stops.CHECK: check}
        renew(attempt, caller=caller, progress=progress, now=happening.now)


def background_key(caller: HookCaller, call: str) -> str:
    return f"hook-background:{caller.agent_id}:{caller.worker_id}:{call}"


def end_tool(happening: Happening) -> Answer:
    event, caller, local = happening.event, happening.caller, happening.local
    attempt, held = find_attempt(caller) if happening.works else None, Answer()
    if attempt and is_unused(attempt) and not happening.is_late:
        # The agent was slow to begin: it continues if its task is still there.
        held = take_prompt(happening)[1]
        attempt = find_attempt(caller)
    live = attempt if attempt and attempt.outcome is None else None
    permissions.note_ran(caller, event, happening.now)
    if ending_of(event).is_later:
        line = redacted(shell_line(event))[:LINE_LENGTH]
        key = background_key(caller, event.call)
        optional_cache.write(key, line, seconds=BACKGROUND_SECONDS)
    call = None if event.subagent else count_call(caller)
    found = signals_of(event, folder=local.folder if local else "")
    report_signals(found, happening, live, call=call)
    if live:
        beat(live, happening)
    if local and local.is_late:
        return {}
    if event.subagent:
        return held  # what it is told does not reach the session's own agent
    # A call that ran while something was delivered, beside another one, is no receipt for it.
    began = happening.now - timedelta(milliseconds=event.duration_ms or 0)
    step = Step(Way.TOOL_CALL, happening.now, began=began, call=call)
    is_claude = event.program == CLAUDE
    return held | reach(caller, event.name, attempt, is_claude=is_claude, step=step)


def ask_permission(happening: Happening) -> Answer:
    event, local, caller = happening.event, happening.local, happening.caller
    waiting, attempt = (local.waiting, local.attempt) if local else (None, None)
    if not event.tool or not caller.may("tasks:work") or (local and not waiting):
        return {}
    folder = find_base(happening) or event.cwd
    return permissions.ask(
        caller, event, waiting, folder=folder, attempt_id=attempt, now=happening.now
    )


def begin_tool(happening: Happening) -> Answer:
    # Codex asks this, since no hook can end its turn.
    attempt = find_live_attempt(happening.caller) if happening.works else None
    if attempt and is_due(attempt, happening):
        renew(attempt, caller=happening.caller, now=happening.now)
    return refuse(attempt)


def end_subagent(happening: Happening) -> Answer:
    # The session's turn continues, or ends with a Stop.
    attempt = find_live_attempt(happening.caller) if happening.works else None
    if attempt:
        renew(attempt, caller=happening.caller, now=happening.now)
    return {}


def report_signals(
    found: Iterable[ToolSignal],
    happening: Happening,
    attempt: Attempt | None,
    *,
    call: int | None = None,
) -> None:
    local, now = happening.local, happening.now
    for each in found:
        report_signal(
            each.type,
            each.data,
            caller=happening.caller.scoped("signals:write"),
            session=happening.event.session,
            attempt=attempt.id if attempt else local.attempt if local else None,
            call=call,
            happened_at=happening.at if happening.is_late else None,
            now=now,
        )


def beat(attempt: Attempt, happening: Happening) -> None:
    """Renew the lease at most every 30 seconds; store at once what decides about the result."""
    event, now = happening.event, happening.now
    progress = dict(attempt.progress) if isinstance(attempt.progress, dict) else {}
    check = describe_check(attempt.task.payload)
    proposed = "" if check else str(progress.get(stops.PROPOSED) or "")
    command = check["command"] if check else proposed
    ran = find_check_run(command, (check or {}).get("cwd", ""), happening)
    wrote = has_written(event)
    # A check is valid only for the files as they were. Without `tenfour hook` no one reads them.
    is_outdated = wrote or (happening.local is None and not ran and has_worked(event))
    is_news = is_outdated and stops.CHECK in progress
    is_news = is_news or (wrote and stops.CHANGED not in progress)
    usage = happening.local.usage if happening.local and not happening.is_late else None
    if not (ran or is_news or usage or is_due(attempt, happening)):
        return
    progress["message"] = describe_call(event)
    if is_outdated:
        progress.pop(stops.CHECK, None)
    if wrote:
        progress[stops.CHANGED] = True
    if ran:
        found = note_check(command, ran, happening)
        progress[stops.CHECK] = found | ({"is_proposed": True} if proposed else {})
    renew(attempt, caller=happening.caller, progress=progress, usage=usage, now=now)


def find_check_run(command: str, cwd: str, happening: Happening) -> ShellCommand | None:
    if happening.event.tool != SHELL_TOOL or not command:
        return None
    return find_run(happening.event, command, base=find_base(happening), cwd=cwd)


def find_base(happening: Happening) -> str:
    """Return the folder that a check's own folder is relative to; empty if it is unknown."""
    return happening.local.folder if happening.local else read_folder(happening.caller)


def has_worked(event: HookEvent) -> bool:
    return event.tool == SHELL_TOOL and may_change_files(event)


def is_due(attempt: Attempt, happening: Happening) -> bool:
    # The first event extends the short lease of a claim. A late event is no sign of life.
    last = attempt.heartbeat_at
    is_quiet = last is None or happening.now - last >= HEARTBEAT_EVERY
    return is_quiet and not happening.is_late


def has_written(event: HookEvent) -> bool:
    # A shell line, which takes longest to read, is no signal of a changed file.
    return event.tool != SHELL_TOOL and bool(signals_of(event))


def note_check(command: str, ran: ShellCommand, happening: Happening) -> dict[str, Any]:
    """Return how a check ended that the agent ran by itself, with its output.

    If its exit code is unknown, `unknown` says why, and `call` finds its end later.
    """
    event, local = happening.event, happening.local
    response = event.response if isinstance(event.response, Mapping) else {}
    output = event.error or "\n".join(
        filter(None, (text_in(response, "stdout"), text_in(response, "stderr")))
    )
    is_known = ran.exit_code is not None
    found = make_check(
        command,
        exit_code=ran.exit_code,
        unknown=None if is_known else ending_of(event).unknown or Unknown.HIDDEN,
        seen_by=SeenBy.HOOK,
        at=happening.at,
        cwd=find_folder(event, ran) or "",
        tree=local.tree if local else None,
    )
    if not is_known:
        return found | {"call": event.call}
    return found | {"output": redacted(output)[-OUTPUT_LENGTH:]}


def describe_call(event: HookEvent) -> str:
    given = shell_line(event) or text_in(event.input, "file_path")
    text = f"{event.tool}: {' '.join(stripped(redacted(given)).split())}" if given else event.tool
    return truncate(text, MESSAGE_LENGTH)


def end_turn(happening: Happening) -> Answer:
    event, local, caller = happening.event, happening.local, happening.caller
    if local and local.is_late:
        if local.attempt is None or not happening.works:
            return {}
        return stops.report_late(
            caller,
            attempt_id=local.attempt,
            verification=local.verification,
            usage=local.usage,
            tree=local.tree,
            now=happening.now,
        )
    # An agent that waits for its subagents and commands is not held.
    is_waiting = any(task.is_running for task in event.background)
    is_asked = local is not None and local.verification is not None
    if not is_waiting and not is_asked and (held := stops.hold(caller, happening.now)):
        return held
    if not happening.works:
        return {}
    return stops.stop(
        caller,
        event,
        verification=local.verification if local else None,
        usage=local.usage if local else None,
        tree=local.tree if local else None,
        can_check=local is not None,
        folder=find_base(happening),
        now=happening.now,
    )


def fail_turn(happening: Happening) -> Answer:
    """Report a turn that ended at an account's limit, or with another known error."""
    # The decision makes the agent wait, or asks a person. After any other error of the model's
    # service, the session keeps its attempt, and releases it when it ends.
    event, caller, now = happening.event, happening.caller, happening.now
    is_own = happening.works and not happening.is_late and not event.subagent
    attempt = find_live_attempt(caller) if is_own else None
    if attempt and find_evidence(event.last_message, now=now):
        report = Report(status="failure", message=event.last_message)
        with suppress(LeaseLost):
            finish_attempt(attempt.id, report, caller=caller.scoped("tasks:work"), now=now)
    return {}


def end_session(happening: Happening) -> Answer:
    permissions.end_session(happening.caller, happening.event, happening.now)
    attempt = find_live_attempt(happening.caller) if happening.works else None
    if attempt:
        with suppress(LeaseLost):  # it ended meanwhile
            releases.release(
                attempt.id,
                caller=happening.caller.scoped("tasks:work"),
                reason="shutdown",
                now=happening.now,
            )
    return {}


def note_attention(happening: Happening) -> Answer:
    """Record that the agent waits for the person at its terminal, at most once a minute."""
    event, caller, local = happening.event, happening.caller, happening.local
    if event.type in QUIET or (local and local.is_late):
        return {}
    message = truncate(" ".join(stripped(redacted(event.message)).split()), MESSAGE_LENGTH)
    digest = sha256(f"{event.session}\n{message}".encode(errors="replace")).hexdigest()[:32]
    key = f"hook-attention:{caller.agent_id}:{digest}"
    if optional_cache.increment(key, seconds=ATTENTION_SECONDS) > 1:
        return {}
    journal.record(
        Kind.AGENT_NEEDS_ATTENTION,
        subject_type="agent",
        subject_id=caller.agent_id,
        agent_id=caller.agent_id,
        project_id=caller.principal.project_id,
        stamp=Stamp(actor(caller.principal), happening.now, caller.bearer.request_id),
        data={
            "message": message,
            "type": clean_note(event.type, limit=TYPE_LENGTH),
            "session": caller.session_name,
        },
    )
    return {}


RULES: dict[str, Callable[[Happening], Answer]] = {
    "SessionStart": begin_session,
    "UserPromptSubmit": begin_turn,
    "PermissionRequest": ask_permission,
    "Elicitation": ask_permission,
    "PreToolUse": begin_tool,
    "PostToolUse": end_tool,
    "PostToolUseFailure": end_tool,
    "SubagentStop": end_subagent,
    "Stop": end_turn,
    "StopFailure": fail_turn,
    "Notification": note_attention,
    "SessionEnd": end_session,
}
