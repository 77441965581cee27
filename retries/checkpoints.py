"""Checkpoints of plans: tasks that ask a person as soon as what they need is there."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from ledger import journal, sql
from ledger.journal import Actor, Kind
from ledger.moves import is_checkpoint, task_columns
from ledger.sql import Row
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries.escalations import lifecycle
from retries.escalations.lifecycle import Question
from retries.states import Reason

ASKED = ("question", "action", "resume_signal")

READY = f"""with {TrustedCaller.cte}, ready as (
    select {task_columns("t")} from ledger_task t
    where t.state = '{TaskState.ESCALATED}' and {is_checkpoint("t")}
        and t.id in (select task_id from ledger_need where need_id = any(%(ids)s))
        and not exists (select from retries_escalation e
            where e.task_id = t.id and e.state = 'open')
    order by t.id
), told as ({
    journal.insert(
        "ready",
        kind=f"'{Kind.TASK_ESCALATED}'",
        subject="task",
        from_state=f"'{TaskState.BLOCKED}'",
    )
}) select * from ready"""


def ask_after(
    ids: Iterable[UUID], *, actor: Actor, now: datetime, request_id: str = ""
) -> list[UUID]:
    """Open the questions of checkpoints whose last need was one of these tasks.

    In the transaction in which the tasks ended; the ids of the checkpoints.
    """
    known = TrustedCaller(actor, request_id=request_id)
    ready = sql.run(READY, ids=list(ids), now=now, **known.params)
    return ask(ready, actor=actor, now=now, request_id=request_id)


def ask(rows: Iterable[Row], *, actor: Actor, now: datetime, request_id: str = "") -> list[UUID]:
    """Open the questions of these tasks, which have just been escalated."""
    asked = []
    for row in rows:
        lifecycle.open_for_task(
            row,
            Reason.AGENT_QUESTION,
            question=question_of(row),
            actor=actor,
            now=now,
            request_id=request_id,
        )
        asked.append(row["id"])
    return asked


def question_of(task: Row) -> Question:
    """What a checkpoint asks: its question, what to do for it and what to answer then, as its plan
    has them; and the answers that it offers."""
    payload = task["payload"] if isinstance(task["payload"], dict) else {}
    parts = [str(payload.get(name) or "").strip() for name in ASKED]
    text = "\n\n".join(dict.fromkeys(filter(None, parts))) or task["title"]
    return Question(text=text, choices=payload.get("options", []))
