"""Questions to people: opened where machines give up, answered once, in the browser or by token."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ledger import instructions, journal, needs, sql
from ledger.errors import Invalid, InvalidTransition, NotFound, Refusal, VersionMismatch
from ledger.instructions import CONTROL, Expect
from ledger.journal import Actor, Kind
from ledger.redaction import stripped
from ledger.sql import Row
from ledger.tokens import TrustedCaller
from retries.escalations import response_schema, task_effects
from retries.models import Escalation, EscalationQuerySet
from retries.states import Answer, Dependents, EscalationState, Reason

FIX_LENGTH = 4000
NOTE_LENGTH = 2000
# the answers that are words, as they begin a sentence
WORDED = {Answer.FIX: "A fix", Answer.ANSWER: "An answer"}
INSTRUCTION = "instruction"
SAY = "say what the agent should do"
UNANSWERED: dict[str, Any] = {
    "action": None,
    "fix": "",
    "response": None,
    "note": "",
    "answered_by_type": "",
    "answered_by_id": "",
    "answered_by_name": "",
    "channel": "",
    "offered_to": None,
}
LINE = re.compile(r"(retry|skip|abort)|fix:\s*(\S.*)")


class AlreadyResolved(Refusal):
    """Somebody has answered this already"""

    code = "already_resolved"
    hint = "An answer is final; 'resolution' has it."


class HumanRequired(Refusal):
    """Only a person may answer this"""

    code = "human_required"
    hint = "An operator answers in the browser, or with an operator's token."


class EscalationExpired(Refusal):
    """Nobody answered in time"""

    code = "escalation_expired"
    hint = "What its asker wanted then was done; the task's history has it."


class UndoTooLate(InvalidTransition):
    """It cannot move there from where it is"""

    hint = "Only a retry or a fix given on the page can be taken back, for a few seconds."


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer as it is given: what to do, the words that go with it, the values that a question
    asks for, and what becomes of the dependents of a task that is skipped."""

    action: Answer
    fix: str = ""
    note: str = ""
    dependents: str = Dependents.CONTINUE
    response: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What an agent wants to know of a person."""

    text: str
    choices: list[dict[str, str]]
    response_schema: dict[str, Any] | None = None
    severity: str = "normal"
    client_state: Any = None
    expires_at: datetime | None = None
    on_expiry: str | None = None

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "question": self.text,
            "choices": self.choices,
            "response_schema": self.response_schema,
            "severity": self.severity,
            "client_state": self.client_state,
            "expires_at": self.expires_at,
            "on_expiry": self.on_expiry,
        }


def opened_from(source: str) -> str:
    """The SQL that opens an escalation for each given-up instruction of the CTE `source`.

    Only for those sent with on_failed 'escalate'; the caller is the CTE `caller`.
    """
    wait = settings.TENFOUR["ESCALATION_REMIND_SECONDS"]
    notify = f"%(now)s + interval '{wait} seconds'" if wait else "null"
    return f"""insert into retries_escalation (project_id, agent_id, instruction_id, state, reason,
        raised_by_type, raised_by_name, opened_at, updated_at, notify_again_at)
    select m.project_id, m.agent_id, m.id, '{EscalationState.OPEN}', '{Reason.INSTRUCTION_IGNORED}',
        c.actor_type, c.actor_name, %(now)s, %(now)s, {notify}
    from {source} m, caller c where m.on_failed = 'escalate'
    returning id, project_id, agent_id, instruction_id, reason, state"""


def opening_journalled(source: str) -> str:
    return journal.insert(
        source,
        kind=f"'{Kind.ESCALATION_OPENED}'",
        subject="escalation",
        from_state="null",
        data="jsonb_build_object('reason', m.reason, 'instruction', m.instruction_id)",
    )


def first_reminder(now: datetime) -> datetime | None:
    wait: int = settings.TENFOUR["ESCALATION_REMIND_SECONDS"]
    return now + timedelta(seconds=wait) if wait else None


def open_for_task(
    task: Row,
    reason: str,
    *,
    question: Question | None = None,
    asked_in: UUID | None = None,
    actor: Actor,
    now: datetime,
    request_id: str,
) -> Escalation:
    """Ask a person about a task that was just escalated or reported blocked.

    `asked_in` is the attempt whose agent asks it.
    """
    opened = Escalation.objects.create(
        project_id=task["project_id"],
        agent_id=task["agent_id"],
        task_id=task["id"],
        state=EscalationState.OPEN,
        reason=reason,
        raised_by_type=actor.type,
        raised_by_name=actor.name,
        asked_in_id=asked_in,
        attempts=task["attempts"],
        attempt_limit=task["attempt_limit"],
        retry_count=task["retry_count"],
        notify_again_at=first_reminder(now),
        opened_at=now,
        updated_at=now,
        **(question.columns if question else {}),
    )
    journal.record(
        Kind.ESCALATION_OPENED,
        subject_type="escalation",
        subject_id=opened.id,
        project_id=opened.project_id,
        agent_id=opened.agent_id,
        to_state=EscalationState.OPEN,
        actor=actor,
        now=now,
        data={"reason": reason, "task": str(task["id"])},
        request_id=request_id,
    )
    return opened


def withdraw(task_ids: Iterable[UUID], *, actor: Actor, now: datetime) -> None:
    """Close the questions about tasks that need no answer any more."""
    found = Escalation.objects.open().filter(task_id__in=list(task_ids)).select_for_update()
    for escalation in found.order_by("id"):
        close(escalation, EscalationState.WITHDRAWN, actor=actor, now=now)


CLOSED = {
    EscalationState.WITHDRAWN: Kind.ESCALATION_WITHDRAWN,
    EscalationState.EXPIRED: Kind.ESCALATION_EXPIRED,
    EscalationState.RESOLVED: Kind.ESCALATION_RESOLVED,
}


def close(
    escalation: Escalation,
    to: EscalationState,
    *,
    actor: Actor,
    now: datetime,
    request_id: str = "",
    data: dict[str, Any] | None = None,
    **columns: Any,
) -> None:
    """Close an open one, which the caller has locked, and journal it."""
    Escalation.objects.filter(pk=escalation.pk).update(
        state=to, closed_at=now, updated_at=now, version=escalation.version + 1, **columns
    )
    tell(
        escalation,
        CLOSED[to],
        from_state=EscalationState.OPEN,
        to_state=to,
        actor=actor,
        now=now,
        request_id=request_id,
        data=data,
    )


def tell(
    escalation: Escalation,
    kind: Kind,
    *,
    from_state: str | None = None,
    to_state: str | None = None,
    actor: Actor,
    now: datetime,
    request_id: str = "",
    data: dict[str, Any] | None = None,
) -> None:
    """Journal what happened to an escalation, with the task it is about."""
    about = {"task": str(escalation.task_id)} if escalation.task_id else {}
    journal.record(
        kind,
        subject_type="escalation",
        subject_id=escalation.id,
        project_id=escalation.project_id,
        agent_id=escalation.agent_id,
        from_state=from_state,
        to_state=to_state,
        actor=actor,
        now=now,
        data=about | (data or {}),
        request_id=request_id,
    )


def parse(text: str) -> Choice:
    """An answer written as one line: `retry`, `skip`, `abort` or `fix: <instruction>`."""
    lines = text.splitlines()
    match = LINE.fullmatch(lines[0].strip()) if len(lines) == 1 else None
    if match is None:
        raise Invalid(
            "/text",
            "Answer with 'retry', 'skip', 'abort' or 'fix: <what to do instead>', on one line.",
        )
    return Choice(Answer(match[1])) if match[1] else Choice(Answer.FIX, fix=match[2].strip())


def check(choice: Choice) -> Choice:
    """The choice itself; raises Invalid where its words are missing, too long or unfit."""
    if choice.action in WORDED:
        if choice.action == Answer.FIX:
            must_say(choice)
        if len(choice.fix.strip()) > FIX_LENGTH:
            raise Invalid(
                "/instruction", f"{WORDED[choice.action]} has at most {FIX_LENGTH} characters."
            )
        check_words(choice.fix, "/instruction")
    elif choice.fix.strip():
        raise Invalid("/instruction", f"Only 'fix' takes an instruction, not '{choice.action}'.")
    if choice.response and choice.action != Answer.ANSWER:
        raise Invalid("/response", f"Only 'answer' has values, not '{choice.action}'.")
    if len(choice.note) > NOTE_LENGTH:
        raise Invalid("/note", f"A note has at most {NOTE_LENGTH} characters.")
    if choice.dependents not in Dependents.values:
        raise Invalid("/dependents", "dependents is 'continue', 'block' or 'skip'.")
    if choice.action != Answer.SKIP and choice.dependents != Dependents.CONTINUE:
        raise Invalid(
            "/dependents", f"Only 'skip' says what becomes of them, not '{choice.action}'."
        )
    return choice


def formed(choice: Choice, schema: dict[str, Any] | None) -> Choice:
    """The answer to a question, its values checked and told after its words.

    Words alone are the value of a property `instruction`, where the question has that one.
    """
    words, values = choice.fix.strip(), dict(choice.response or {})
    if schema is None:
        if values:
            raise Invalid("/response", "The question asks for no values: answer in words.")
        return must_say(choice)
    if words and INSTRUCTION in schema.get("properties", {}):
        values = {INSTRUCTION: words} | values
    response_schema.check(schema, values)
    said = spoken(words, values)
    return must_say(check(replace(choice, fix=said, response=values or None)))


def spoken(words: str, values: dict[str, Any]) -> str:
    """An answer's words, then its values, as the next attempt is told them."""
    told = {name: value for name, value in values.items() if name != INSTRUCTION}
    instruction = words or str(values.get(INSTRUCTION, "")).strip()
    return "\n".join(part for part in (instruction, response_schema.worded(told)) if part)


def must_say(choice: Choice) -> Choice:
    if not stripped(choice.fix).strip():
        raise Invalid("/instruction", f"{WORDED[choice.action]} needs words: {SAY}.")
    return choice


def check_words(text: str, pointer: str) -> None:
    if found := CONTROL.search(text):
        raise Invalid(
            pointer,
            f"It has the control character U+{ord(found[0]):04X} at {found.start()}; "
            "only tab and newline are allowed.",
        )


@sql.atomic
def answer(
    escalation_id: UUID,
    choice: Choice,
    *,
    among: EscalationQuerySet,
    actor: Actor,
    channel: str,
    version: int | None = None,
    undo_for: timedelta = timedelta(),
    now: datetime | None = None,
    request_id: str = "",
) -> Escalation:
    """Settle an escalation: the one verb behind page, API and admin.

    `among` are the escalations that the actor may see. A retry or fix of a task waits `undo_for`
    before it is queued, and can be taken back so long. Raises NotFound, AlreadyResolved with the
    first answer, EscalationExpired, VersionMismatch where the actor has read another version, and
    Invalid.
    """
    now, choice = now or timezone.now(), check(choice)
    if choice.action == Answer.ABORT:
        hold_plan_of(escalation_id, among)
    escalation = locked(escalation_id, among)
    must_be_open(escalation)
    if version is not None and version != escalation.version:
        raise VersionMismatch(
            f"You have read version {version}; it is at {escalation.version} now.",
            current=escalation.version,
        )
    if choice.action == Answer.ANSWER and escalation.reason != Reason.AGENT_QUESTION:
        raise Invalid("/action", "Nothing was asked: answer 'retry', 'fix', 'skip' or 'abort'.")
    if choice.action == Answer.ANSWER:
        choice = formed(choice, escalation.response_schema)
    done = act(escalation, choice, undo_for=undo_for, actor=actor, now=now, request_id=request_id)
    words = choice.fix.strip()
    close(
        escalation,
        EscalationState.RESOLVED,
        actor=actor,
        now=now,
        request_id=request_id,
        data={"action": choice.action, "channel": channel}
        | ({"words": words} if words else {})
        | ({"dependents": choice.dependents} if choice.action == Answer.SKIP else {})
        | {name: str(value) for name, value in done.items()},
        action=choice.action,
        fix=words,
        response=choice.response,
        note=choice.note.strip(),
        answered_by_type=actor.type,
        answered_by_id=actor.id,
        answered_by_name=actor.name,
        channel=channel,
        **done,
    )
    escalation.refresh_from_db()
    return escalation


def locked(escalation_id: UUID, among: EscalationQuerySet) -> Escalation:
    """The row, so that nobody else answers meanwhile; raises NotFound."""
    found = among.select_for_update(of=("self",)).select_related(
        "agent", "instruction", "project", "task"
    )
    escalation = found.filter(pk=escalation_id).first()
    if escalation is None:
        raise NotFound(f"There is no escalation {escalation_id} here.")
    return escalation


def hold_plan_of(escalation_id: UUID, among: EscalationQuerySet) -> None:
    """Lock all open questions of the plan that an abort stops, in the order of their ids.

    Two aborts of one plan would else each hold their own question and wait for the other's.
    """
    plan = among.filter(pk=escalation_id).values("task__plan")[:1]
    rows = Escalation.objects.open().filter(task__plan=plan).order_by("id")
    list(rows.select_for_update(of=("self",)).values_list("pk"))


def must_be_open(escalation: Escalation) -> None:
    if escalation.state == EscalationState.EXPIRED:
        raise EscalationExpired(already(escalation))
    if not escalation.is_open:
        raise AlreadyResolved(already(escalation), resolution=resolution(escalation))


def act(
    escalation: Escalation,
    choice: Choice,
    *,
    undo_for: timedelta,
    actor: Actor,
    now: datetime,
    request_id: str,
) -> dict[str, Any]:
    """Do what was answered; the columns that say what came of it."""
    if escalation.task:
        from retries.plans import restarting  # which asks and withdraws by this module

        due_at = now + undo_for if undo_for and choice.action in task_effects.UNDOABLE else None
        act_on_task(escalation, choice, due_at=due_at, actor=actor, now=now, request_id=request_id)
        restarting.answered(
            escalation.task, choice.action, actor=actor, now=now, request_id=request_id
        )
        return {"undo_until": due_at} if due_at else {}
    match choice.action:
        case Answer.RETRY | Answer.FIX:
            row = resend(escalation, choice, actor=actor, now=now, request_id=request_id)
            return {"resent_as_id": row["id"]}
        case Answer.ABORT:
            caller = TrustedCaller(actor, agent=escalation.agent, request_id=request_id)
            return {"cancelled": len(instructions.cancel_all(caller, now=now))}
    return {}


def act_on_task(
    escalation: Escalation,
    choice: Choice,
    *,
    due_at: datetime | None,
    actor: Actor,
    now: datetime,
    request_id: str,
) -> None:
    """Move the task as it was answered.

    A retry grants a new round of attempts; a fix keeps the count and grants one guided attempt.
    """
    assert escalation.task_id is not None
    needs.hold([escalation.task_id])
    if choice.action in task_effects.GRANTS:
        task_effects.go_on(
            escalation, choice.action, due_at=due_at, actor=actor, now=now, request_id=request_id
        )
        return
    gone = task_effects.end(
        escalation,
        choice.action,
        choice=choice.dependents,
        actor=actor,
        now=now,
        request_id=request_id,
    )
    withdraw(gone, actor=actor, now=now)


@transaction.atomic
def undo(
    escalation_id: UUID,
    *,
    among: EscalationQuerySet,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> Escalation:
    """Take the answer back: the same escalation is open again, its task where it was.

    Raises NotFound, and UndoTooLate where the time is over or the task has gone on; answer and undo
    both stay in the journal.
    """
    now = now or timezone.now()
    escalation = locked(escalation_id, among)
    undone = escalation.state == EscalationState.RESOLVED and escalation.undo_until is not None
    if not undone or not task_effects.undo(escalation, actor=actor, now=now, request_id=request_id):
        state = escalation.state
        if escalation.task:
            escalation.task.refresh_from_db(fields=["state"])
            state = escalation.task.state
        raise UndoTooLate(
            f"The answer can't be taken back any more: the task is {state}.",
            current=state,
            allowed=[],
        )
    Escalation.objects.filter(pk=escalation.pk).update(
        state=EscalationState.OPEN,
        closed_at=None,
        updated_at=now,
        version=escalation.version + 1,
        undo_until=None,
        **UNANSWERED,
    )
    tell(
        escalation,
        Kind.ESCALATION_REOPENED,
        from_state=EscalationState.RESOLVED,
        to_state=EscalationState.OPEN,
        actor=actor,
        now=now,
        request_id=request_id,
        data={"action": escalation.action},
    )
    escalation.refresh_from_db()
    return escalation


# ---- beside the answer


@transaction.atomic
def assign(
    escalation_id: UUID,
    user: str | None,
    *,
    among: EscalationQuerySet,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> Escalation:
    """Say who takes care of it, by the name one signs in with; None: nobody in particular."""
    now = now or timezone.now()
    escalation = locked(escalation_id, among)
    must_be_open(escalation)
    found = User.objects.filter(username=user, is_active=True, is_staff=True).first()
    if user and found is None:
        raise Invalid("/user", f"Nobody who may answer signs in as '{user}'.")
    Escalation.objects.filter(pk=escalation.pk).update(
        assignee=found, updated_at=now, version=escalation.version + 1
    )
    tell(
        escalation,
        Kind.ESCALATION_ASSIGNED,
        actor=actor,
        now=now,
        request_id=request_id,
        data={"user": user},
    )
    escalation.refresh_from_db()
    return escalation


@transaction.atomic
def comment(
    escalation_id: UUID,
    text: str,
    *,
    among: EscalationQuerySet,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> Escalation:
    """Keep a remark for whoever else looks; it changes nothing."""
    text = text.strip()
    if not 1 <= len(text) <= NOTE_LENGTH:
        raise Invalid("/text", f"A comment has 1 to {NOTE_LENGTH} characters.")
    check_words(text, "/text")
    escalation = locked(escalation_id, among)
    now = now or timezone.now()
    Escalation.objects.filter(pk=escalation.pk).update(updated_at=now)
    tell(
        escalation,
        Kind.ESCALATION_COMMENTED,
        actor=actor,
        now=now,
        request_id=request_id,
        data={"text": text},
    )
    return escalation


def resend(
    escalation: Escalation, choice: Choice, *, actor: Actor, now: datetime, request_id: str
) -> Row:
    """The instruction again, first in the queue, in the person's words where it is a fix."""
    old = escalation.instruction
    if old is None:
        raise TypeError("this escalation is not about an instruction")
    return instructions.send(
        escalation.agent,
        choice.fix.strip() or old.content,
        max_retries=old.max_retries,
        expect=Expect(old.expect_type, old.expect_match) if old.expect_type else None,
        priority=True,
        on_failed=old.on_failed,
        resend_of=old.id,
        actor=actor,
        now=now,
        request_id=request_id,
    )


def already(escalation: Escalation) -> str:
    if escalation.state != EscalationState.RESOLVED:
        return f"The escalation is {escalation.state} since {escalation.closed_at:%F %T}Z."
    return (
        f"{escalation.answered_by_name} answered '{escalation.action}' "
        f"at {escalation.closed_at:%F %T}Z."
    )


def resolution(escalation: Escalation) -> dict[str, Any] | None:
    """The answer that was given: what, who, when, from where, and what came of it."""
    if escalation.state != EscalationState.RESOLVED:
        return None
    return {
        "action": escalation.action,
        "instruction": escalation.fix or None,
        "response": escalation.response,
        "note": escalation.note or None,
        "by": {"type": escalation.answered_by_type, "name": escalation.answered_by_name},
        "at": escalation.closed_at,
        "channel": escalation.channel,
        "undo_until": escalation.undo_until,
        "resent_as": escalation.resent_as_id,
        "cancelled": escalation.cancelled,
    }
