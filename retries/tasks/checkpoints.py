"""Checkpoints of plans: tasks that ask a person once their needs are met."""

from collections.abc import Iterable
from uuid import UUID

from ledger import journal
from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import Kind, Stamp
from ledger.moves import is_checkpoint, task_columns
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries.escalations import lifecycle
from retries.escalations.lifecycle import Question
from retries.states import Reason

QUESTION_FIELDS = ("question", "action", "resume_signal")

READY = f"""with {TrustedCaller.cte}, ready as (
    select {task_columns("t")} from ledger_task t
    where t.state = '{TaskState.ESCALATED}' and {is_checkpoint("t")}
        and t.id in (select task_id from ledger_need where need_id = any(%(ids)s))
        and not exists (select from retries_escalation e
            where e.task_id = t.id and e.state = 'open')
    order by t.id
), journaled as ({
    journal.insert(
        "ready",
        kind=f"'{Kind.TASK_ESCALATED}'",
        subject="task",
        from_state=f"'{TaskState.BLOCKED}'",
    )
}) select * from ready"""


def waits_for_answer(row: Row) -> bool:
    return bool(row["state"] == TaskState.ESCALATED)


def open_questions_after(ids: Iterable[UUID], *, stamp: Stamp) -> list[UUID]:
    """Open the questions of checkpoints whose last need was one of these tasks; return their ids.

    Call it in the transaction in which the tasks end.
    """
    known = TrustedCaller(stamp.actor, request_id=stamp.request_id)
    ready = sql.run(READY, ids=list(ids), now=stamp.at, **known.params)
    return open_questions(ready, stamp=stamp)


def open_questions(rows: Iterable[Row], *, stamp: Stamp) -> list[UUID]:
    opened = []
    for row in rows:
        lifecycle.open_for_task(row, Reason.AGENT_QUESTION, question=question_of(row), stamp=stamp)
        opened.append(row["id"])
    return opened


def question_of(task: Row) -> Question:
    payload = task["payload"] if isinstance(task["payload"], dict) else {}
    parts = [str(payload.get(name) or "").strip() for name in QUESTION_FIELDS]
    text = "\n\n".join(dict.fromkeys(filter(None, parts))) or task["title"]
    return Question(text=text, choices=payload.get("options", []))
