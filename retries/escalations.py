"""Questions to people: opened where machines give up, answered once, in the browser or by token."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from psycopg.types.json import Jsonb

from ledger import instructions, journal, sql
from ledger.instructions import Expect, check_content
from ledger.journal import Actor, Kind
from ledger.models import Instruction
from ledger.moves import needs_met, task_to
from ledger.refusals import Invalid, NotFound, Refusal, VersionMismatch
from ledger.sql import Row
from ledger.states import TaskState
from ledger.tokens import Known
from retries.models import Escalation, EscalationQuerySet
from retries.states import Answer, EscalationState, Reason

State = EscalationState

FIX_LENGTH = 4000
NOTE_LENGTH = 2000
LINE = re.compile(r"(retry|skip|abort)|fix:\s*(\S.*)", re.S)


class AlreadyResolved(Refusal):
    """Somebody has answered this already"""

    code = "already_resolved"
    hint = "An answer is final; 'resolution' has it."


class HumanRequired(Refusal):
    """Only a person may answer this"""

    code = "human_required"
    hint = "An operator answers in the browser, or with an operator's token."


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer as it is given: what to do, and the words that go with it."""

    action: Answer
    fix: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """An answer as it is offered."""

    name: Answer
    title: str
    description: str
    requires_text: bool = False
    confirm: bool = False


def opened_from(source: str) -> str:
    """The SQL that opens an escalation for each given-up instruction of the CTE `source`.

    Only for those sent with on_failed 'escalate'; the caller is the CTE `caller`.
    """
    return f"""insert into retries_escalation (project_id, agent_id, instruction_id, state, reason,
        raised_by_type, raised_by_name, opened_at, updated_at)
    select m.project_id, m.agent_id, m.id, '{State.OPEN}', '{Reason.INSTRUCTION_IGNORED}',
        c.actor_type, c.actor_name, %(now)s, %(now)s
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


def open_for_task(
    task: Row, reason: str, *, actor: Actor, now: datetime, request_id: str
) -> Escalation:
    """Ask a person about a task that was just escalated or reported blocked."""
    opened = Escalation.objects.create(
        project_id=task["project_id"],
        agent_id=task["agent_id"],
        task_id=task["id"],
        state=State.OPEN,
        reason=reason,
        raised_by_type=actor.type,
        raised_by_name=actor.name,
        opened_at=now,
        updated_at=now,
    )
    journal.record(
        Kind.ESCALATION_OPENED,
        subject_type="escalation",
        subject_id=opened.id,
        project_id=opened.project_id,
        agent_id=opened.agent_id,
        to_state=State.OPEN,
        actor=actor,
        now=now,
        data={"reason": reason, "task": str(task["id"])},
        request_id=request_id,
    )
    return opened


def withdraw(task_ids: list[UUID], *, actor: Actor, now: datetime) -> None:
    """Close the questions about tasks that need no answer any more."""
    found = Escalation.objects.open().filter(task_id__in=task_ids).select_for_update()
    for escalation in found.order_by("id"):
        Escalation.objects.filter(pk=escalation.pk).update(
            state=State.WITHDRAWN, closed_at=now, updated_at=now, version=escalation.version + 1
        )
        journal.record(
            Kind.ESCALATION_WITHDRAWN,
            subject_type="escalation",
            subject_id=escalation.id,
            project_id=escalation.project_id,
            agent_id=escalation.agent_id,
            from_state=State.OPEN,
            to_state=State.WITHDRAWN,
            actor=actor,
            now=now,
            data={"task": str(escalation.task_id)},
        )


def options(escalation: Escalation) -> list[Option]:
    """What a person can answer, in the order of the buttons."""
    if escalation.task:
        return task_options(escalation)
    agent = escalation.agent.name
    waiting = Instruction.objects.filter(agent=escalation.agent).awaiting_ack().count()
    one = waiting == 1
    withdraws = f"{waiting} instruction{'' if one else 's'} for {agent}"
    return [
        Option(
            Answer.FIX,
            "Send with other words",
            f"{agent} gets your words first of all, and is chased until it answers.",
            requires_text=True,
        ),
        Option(
            Answer.RETRY, "Send again", "The same words once more, first of all, from the start."
        ),
        Option(Answer.SKIP, "Leave it", "It stays given up; nothing is sent.", confirm=True),
        Option(
            Answer.ABORT,
            "Withdraw all that waits",
            f"Cancels the {withdraws} that wait{'s' if one else ''} for an answer."
            if waiting
            else "Nothing waits now.",
            confirm=True,
        ),
    ]


def task_options(escalation: Escalation) -> list[Option]:
    task, agent = escalation.task, escalation.agent.name
    assert task is not None
    more = task.max_attempts
    waiting = task.dependents.count()
    one = waiting == 1
    depends = f"{waiting} task{'' if one else 's'} depend{'s' if one else ''} on it and"
    return [
        Option(
            Answer.FIX,
            "Fix with an instruction",
            f"{agent} gets one more attempt and is told your words first.",
            requires_text=True,
        ),
        Option(
            Answer.RETRY, "Try again", f"{more} more attempt{'' if more == 1 else 's'}, from now."
        ),
        Option(
            Answer.SKIP,
            "Skip",
            f"{depends} may fail without it." if waiting else "Nothing depends on it.",
            confirm=True,
        ),
        Option(
            Answer.ABORT,
            "Abort",
            f"{depends} will never run." if waiting else "It ends here.",
            confirm=True,
        ),
    ]


def parse(text: str) -> Choice:
    """An answer written as one line: `retry`, `skip`, `abort` or `fix: <instruction>`."""
    match = LINE.fullmatch(text.strip())
    if match is None:
        raise Invalid(
            "/text", "Answer with 'retry', 'skip', 'abort' or 'fix: <what to do instead>'."
        )
    return Choice(Answer(match[1])) if match[1] else Choice(Answer.FIX, fix=match[2].strip())


def check(choice: Choice) -> Choice:
    """The choice itself; raises Invalid where its words are missing, too long or unfit."""
    if choice.action == Answer.FIX:
        if not choice.fix.strip():
            raise Invalid("/instruction", "A fix needs words: say what the agent should do.")
        if len(choice.fix) > FIX_LENGTH:
            raise Invalid("/instruction", f"A fix has at most {FIX_LENGTH} characters.")
        check_content(choice.fix)
    elif choice.fix.strip():
        raise Invalid("/instruction", f"Only 'fix' takes an instruction, not '{choice.action}'.")
    if len(choice.note) > NOTE_LENGTH:
        raise Invalid("/note", f"A note has at most {NOTE_LENGTH} characters.")
    return choice


@transaction.atomic
def answer(
    escalation_id: UUID,
    choice: Choice,
    *,
    among: EscalationQuerySet,
    actor: Actor,
    channel: str,
    version: int | None = None,
    now: datetime | None = None,
    request_id: str = "",
) -> Escalation:
    """Settle an escalation: the one verb behind page, API and admin.

    `among` are the escalations that the actor may see. Raises NotFound, AlreadyResolved with the
    first answer, VersionMismatch where the actor has read another version, and Invalid.
    """
    now, choice = now or timezone.now(), check(choice)
    found = among.select_for_update(of=("self",)).select_related(
        "agent", "instruction", "project", "task"
    )
    escalation = found.filter(pk=escalation_id).first()
    if escalation is None:
        raise NotFound(f"There is no escalation {escalation_id} here.")
    if not escalation.is_open:
        raise AlreadyResolved(already(escalation), resolution=resolution(escalation))
    if version is not None and version != escalation.version:
        raise VersionMismatch(
            f"You have read version {version}; it is at {escalation.version} now.",
            current=escalation.version,
        )
    done = act(escalation, choice, actor=actor, now=now, request_id=request_id)
    Escalation.objects.filter(pk=escalation.pk).update(
        state=State.RESOLVED,
        action=choice.action,
        fix=choice.fix.strip(),
        note=choice.note.strip(),
        answered_by_type=actor.type,
        answered_by_id=actor.id,
        answered_by_name=actor.name,
        channel=channel,
        closed_at=now,
        updated_at=now,
        version=escalation.version + 1,
        **done,
    )
    journal.record(
        Kind.ESCALATION_RESOLVED,
        subject_type="escalation",
        subject_id=escalation.id,
        project_id=escalation.project_id,
        agent_id=escalation.agent_id,
        from_state=State.OPEN,
        to_state=State.RESOLVED,
        actor=actor,
        now=now,
        data={"action": choice.action, "channel": channel}
        | {name: str(value) for name, value in done.items()},
        request_id=request_id,
    )
    escalation.refresh_from_db()
    return escalation


def act(
    escalation: Escalation, choice: Choice, *, actor: Actor, now: datetime, request_id: str
) -> dict[str, Any]:
    """Do what was answered; the columns that say what came of it."""
    if escalation.task:
        from retries import plans  # which asks and withdraws by this module

        answer_task(escalation, choice, actor=actor, now=now, request_id=request_id)
        plans.answered(escalation.task, choice.action, actor=actor, now=now, request_id=request_id)
        return {}
    match choice.action:
        case Answer.RETRY | Answer.FIX:
            row = resend(escalation, choice, actor=actor, now=now, request_id=request_id)
            return {"resent_as_id": row["id"]}
        case Answer.ABORT:
            caller = Known(actor, agent=escalation.agent, request_id=request_id)
            return {"cancelled": len(instructions.cancel_all(caller, now=now))}
        case Answer.SKIP:
            return {}


ANSWERED = "t.id = %(id)s and t.state in ('escalated', 'blocked')"


def requeue_statement(sets: str) -> str:
    moved = task_to(TaskState.QUEUED, where=ANSWERED, sets=f"releases = 0, {sets}")
    told = journal.insert("moved", kind=f"'{Kind.TASK_REQUEUED}'", subject="task", data="%(data)s")
    return f"with {Known.cte}, moved as ({moved}), told as ({told}) select id from moved"


def end_statement(to: TaskState, kind: Kind) -> str:
    moved = task_to(to, where=ANSWERED)
    told = journal.insert("moved", kind=f"'{kind}'", subject="task", data="%(data)s")
    met = "moved" if to == TaskState.SKIPPED else "nobody"
    freed = journal.insert("freed", kind=f"'{Kind.TASK_UNBLOCKED}'", subject="task")
    return f"""with {Known.cte}, moved as ({moved}), told as ({told}),
    nobody as (select null::uuid as id where false), met as ({needs_met(met)}),
    freed as (select * from met where state = 'queued' and from_state = 'blocked'),
    told_freed as ({freed}) select id from moved"""


ANSWERS = {
    Answer.RETRY: requeue_statement("retry_count = 0, attempt_limit = t.attempts + t.max_attempts"),
    Answer.FIX: requeue_statement("attempt_limit = t.attempts + 1"),
    Answer.SKIP: end_statement(TaskState.SKIPPED, Kind.TASK_SKIPPED),
    Answer.ABORT: end_statement(TaskState.ABORTED, Kind.TASK_ABORTED),
}


def answer_task(
    escalation: Escalation, choice: Choice, *, actor: Actor, now: datetime, request_id: str
) -> None:
    """Move the task as it was answered.

    A retry grants a new round of attempts; a fix keeps the count and grants one guided attempt.
    """
    sql.run(
        ANSWERS[choice.action],
        id=escalation.task_id,
        data=Jsonb({"answer": choice.action, "escalation": str(escalation.pk)}),
        now=now,
        **Known(actor, request_id=request_id).params,
    )


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
    if escalation.state != State.RESOLVED:
        return f"The escalation is {escalation.state} since {escalation.closed_at:%F %T}Z."
    return (
        f"{escalation.answered_by_name} answered '{escalation.action}' "
        f"at {escalation.closed_at:%F %T}Z."
    )


def resolution(escalation: Escalation) -> dict[str, Any] | None:
    """The answer that was given: what, who, when, from where, and what came of it."""
    if escalation.state != State.RESOLVED:
        return None
    return {
        "action": escalation.action,
        "instruction": escalation.fix or None,
        "note": escalation.note or None,
        "by": {"type": escalation.answered_by_type, "name": escalation.answered_by_name},
        "at": escalation.closed_at,
        "channel": escalation.channel,
        "resent_as": escalation.resent_as_id,
        "cancelled": escalation.cancelled,
    }
