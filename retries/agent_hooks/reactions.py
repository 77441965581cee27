"""The rules: what each event of an agent's session causes, and the answer of its hook."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from ledger import instructions, journal, optional_cache
from ledger.api.auth import actor
from ledger.journal import Kind, Stamp
from ledger.models import Attempt, Instruction
from ledger.redaction import redacted, stripped
from ledger.schemas.instructions import instruction_out
from ledger.signal_matching import report_signal
from ledger.standing_instructions.editing import SESSION_START
from ledger.states import InstructionState
from ledger.text import truncate
from retries.agent_hooks import stops
from retries.agent_hooks.answers import TEXT_LENGTH, Answer, add_context
from retries.agent_hooks.events import HookEvent, ShellCommand, has_run, signals_of, text_in
from retries.agent_hooks.sessions import (
    HEARTBEAT_EVERY,
    HookCaller,
    describe_check,
    find_live_attempt,
    take_task,
)
from retries.attempts import heartbeats, releases
from retries.attempts.live_attempt import LeaseLost

MOST_INSTRUCTIONS = 10
# In front of an instruction's content, where it is urgent.
PREFIX_LENGTH = 20
GAP = "\n\n"
MESSAGE_LENGTH = 200
OUTPUT_LENGTH = 4000
# Notifications that ask for nothing.
QUIET = {"auth_success", "elicitation_complete", "elicitation_response"}
# A waiting agent sends its notification repeatedly.
ATTENTION_SECONDS = 60
TYPE_LENGTH, SESSION_LENGTH = 64, 128
SESSION_SECONDS = 7 * 24 * 3600


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
    def works(self) -> bool:
        """Return whether the session's task is for these rules to claim, verify and report."""
        return not self.is_managed and self.caller.may("tasks:work")


def react(happening: Happening) -> Answer:
    """Return the answer to an event; an event that has no rule is ignored."""
    rule = RULES.get(happening.event.name)
    return rule(happening) if rule else {}


def begin_session(happening: Happening) -> Answer:
    """Claim the session's task. Claude Code's HTTP hooks never send this event."""
    local = happening.local
    if local and local.is_late:
        return {}
    report_session(happening)
    if not happening.works:
        return {}
    prompt, held = take_prompt(happening)
    return add_context(happening.event.name, prompt) | held


def report_session(happening: Happening) -> None:
    """Report that the session starts, which standing instructions can wait for."""
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
    """Return the prompt of the session's task, and its facts for the agent's side."""
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
    stops.forget_blocks(caller)
    if local is None and is_first_turn(caller):
        report_session(happening)
    prompt, held = "", Answer()
    if happening.works and find_live_attempt(caller) is None:
        prompt, held = take_prompt(happening)
    texts = [prompt, *deliver(happening, room=TEXT_LENGTH - len(prompt))]
    return add_context(happening.event.name, GAP.join(filter(None, texts))) | held


def deliver(happening: Happening, *, room: int) -> list[str]:
    """Deliver the instructions at the head of the queue that fit into `room` characters."""
    caller = happening.caller
    limit = count_fitting(caller.agent_id, room=room)
    if not limit or not caller.may("instructions:ack"):
        return []
    rows = instructions.pull(
        caller.scoped("instructions:ack"),
        limit=limit,
        session=stripped(happening.event.session)[:SESSION_LENGTH] or None,
        now=happening.now,
    )
    return [instruction_out(row)["text"] for row in rows]


def count_fitting(agent_id: UUID, *, room: int) -> int:
    """Return how many instructions at the head of the queue have room in a hook's text."""
    rows = Instruction.objects.filter(agent_id=agent_id, state=InstructionState.QUEUED)
    count = 0
    for content in rows.order_by("position").values_list("content", flat=True)[:MOST_INSTRUCTIONS]:
        room -= len(content) + PREFIX_LENGTH + len(GAP)
        if room < 0:
            break
        count += 1
    return count


def end_tool(happening: Happening) -> Answer:
    """Report the agent's actions as signals, and renew the lease of its attempt."""
    event, caller, local = happening.event, happening.caller, happening.local
    attempt = find_live_attempt(caller) if happening.works else None
    attempt_id = local.attempt if local else None
    age = timedelta(seconds=local.age_s) if local and local.is_late else None
    for each in signals_of(event, folder=local.folder if local else ""):
        report_signal(
            each.type,
            each.data,
            caller=caller.scoped("signals:write"),
            session=event.session,
            attempt=attempt.id if attempt else attempt_id,
            happened_at=None if age is None else happening.now - age,
            now=happening.now,
        )
    if attempt and age is None:
        beat(attempt, happening)
    return {}


def beat(attempt: Attempt, happening: Happening) -> None:
    """Renew the lease at most every 30 seconds, and note at once how the task's check ended."""
    event, now = happening.event, happening.now
    check = describe_check(attempt.task.payload) if happening.local is None else None
    ran = has_run(event, check["command"]) if check else None
    progress = dict(attempt.progress) if isinstance(attempt.progress, dict) else {}
    # A check is valid only for the files as they were.
    is_outdated = stops.CHECK in progress and has_written(event)
    last = attempt.heartbeat_at or attempt.started_at
    if not (ran or is_outdated) and now - last < HEARTBEAT_EVERY:
        return
    progress["message"] = describe_call(event)
    if is_outdated:
        del progress[stops.CHECK]
    if check and ran:
        progress[stops.CHECK] = note_check(check["command"], ran, event)
    with suppress(LeaseLost):  # the agent learns of it when it stops
        heartbeats.renew_lease(
            attempt.id, caller=happening.caller.scoped("tasks:work"), progress=progress, now=now
        )


def has_written(event: HookEvent) -> bool:
    return any(each.type == "fs_write" for each in signals_of(event))


def note_check(command: str, ran: ShellCommand, event: HookEvent) -> dict[str, Any]:
    """Return how the check ended that the agent ran by itself, as a report contains it."""
    response = event.response if isinstance(event.response, Mapping) else {}
    output = event.error or "\n".join(
        filter(None, (text_in(response, "stdout"), text_in(response, "stderr")))
    )
    # Without an exit code from the agent's program, it is not a success.
    code = 1 if ran.exit_code is None else ran.exit_code
    return {"command": command, "exit_code": code, "output": redacted(output)[-OUTPUT_LENGTH:]}


def describe_call(event: HookEvent) -> str:
    """Return the progress message about a tool call."""
    given = text_in(event.input, "command") or text_in(event.input, "file_path")
    text = f"{event.tool}: {' '.join(stripped(redacted(given)).split())}" if given else event.tool
    return truncate(text, MESSAGE_LENGTH)


def end_turn(happening: Happening) -> Answer:
    """Hold the agent while its work is not done: see `stops`."""
    local, caller = happening.local, happening.caller
    if local and local.is_late:
        if local.attempt is None or not happening.works:
            return {}
        return stops.report_late(
            caller,
            attempt_id=local.attempt,
            verification=local.verification,
            usage=local.usage,
            now=happening.now,
        )
    if (local is None or local.verification is None) and (
        held := stops.hold(caller, happening.now)
    ):
        return held
    if not happening.works:
        return {}
    return stops.stop(
        caller,
        verification=local.verification if local else None,
        usage=local.usage if local else None,
        summary=happening.event.last_message,
        can_check=local is not None,
        now=happening.now,
    )


def end_session(happening: Happening) -> Answer:
    """Release the attempt that the session still holds."""
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
    """Record that the agent waits for the person at its terminal, once a minute at most."""
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
            "type": stripped(event.type)[:TYPE_LENGTH],
            "session": stripped(event.session)[:SESSION_LENGTH],
        },
    )
    return {}


RULES: dict[str, Callable[[Happening], Answer]] = {
    "SessionStart": begin_session,
    "UserPromptSubmit": begin_turn,
    "PostToolUse": end_tool,
    "PostToolUseFailure": end_tool,
    "Stop": end_turn,
    "Notification": note_attention,
    "SessionEnd": end_session,
}
