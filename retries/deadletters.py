"""The dead-letter queue: write dead letters of failed tasks, and replay or dismiss them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger import journal
from ledger.database import sql
from ledger.journal import Kind, Stamp
from ledger.models import DeadLetter, Plan
from ledger.models.dead_letter import DeadLetterQuerySet
from ledger.secrets.notes import clean_note, noted
from ledger.tasks import Change, enqueue_many
from ledger.tasks.changing import describe_changes
from ledger.tasks.payload_changes import check_masks, journaled, list_changes
from ledger.tasks.replacing import release_ref, take_places
from ledger.tasks.spec import clean_payload, spec_of_task
from retries.escalations import lifecycle
from retries.states import Dependents
from retries.tasks import checkpoints
from retries.tasks.dependents import settle_dependents


def lock_letters(ids: Iterable[UUID], among: DeadLetterQuerySet) -> list[DeadLetter]:
    # With its task locked, a new dependent of the task waits until this is decided.
    rows = among.filter(pk__in=list(ids)).select_related(
        "task__pool", "task__agent", "agent__project"
    )
    return list(rows.order_by("id").select_for_update(of=("self", "task")))


@sql.atomic
def replay(
    ids: Iterable[UUID],
    *,
    among: DeadLetterQuerySet,
    note: str = "",
    asked: Change | None = None,
    stamp: Stamp,
) -> list[DeadLetter]:
    """Enqueue failed tasks again; return the dead letters that were open, with `replayed_as`."""
    # `asked` changes the new tasks, and the journal stores the difference. Dependents of the
    # old task wait for the new one, and a checkpoint asks again. Dead letters of an aborted plan
    # stay open, because its tasks may not start before the plan is restarted.
    ids = list(ids)
    lock_plans_of(ids, among)
    asking, replaced = [], {}
    found = lock_letters(ids, among.replayable())
    for letter in found:
        old = letter.task
        release_ref(old)
        changed = asked.columns if asked else {}
        changes = describe_changes(old, asked) if asked and asked.names else {}
        if "payload" in changed:
            check_masks(old.payload, changed["payload"])
            changed["payload"] = clean_payload(changed["payload"], pointer="/payload")[0]
            changes |= journaled(list_changes(old.payload, changed["payload"]))
        row = enqueue_many(
            [((asked and asked.agent) or old.sent_to, spec_of_task(old, **changed))],
            stamp=stamp,
            replay_of=old.pk,
        )[0]
        replaced[old.pk] = row["id"]
        close(letter, "replayed", stamp=stamp, replayed_as_id=row["id"])
        record_event(letter, Kind.TASK_REPLAYED, note=note, stamp=stamp, **changes)
        asking += [row] if checkpoints.waits_for_answer(row) else []
    take_places(replaced, now=stamp.at)
    checkpoints.open_questions(asking, stamp=stamp)
    return found


def lock_plans_of(ids: list[UUID], among: DeadLetterQuerySet) -> None:
    # While its row is locked, a plan can't be aborted or restarted.
    letters = among.filter(pk__in=ids).exclude(task__plan=None)
    list(Plan.objects.lock(letters.values_list("task__plan", flat=True)))


@sql.atomic
def dismiss(
    ids: Iterable[UUID],
    *,
    among: DeadLetterQuerySet,
    dependents: str = Dependents.CONTINUE,
    note: str = "",
    stamp: Stamp,
) -> list[DeadLetter]:
    """Close dead letters without a retry; return those that were open.

    Dependents of their tasks continue as if these were done (`continue`), stay blocked (`block`),
    or are skipped (`skip`).
    """
    note = clean_note(note)
    found = lock_letters(ids, among.open())
    for letter in found:
        close(letter, "dismissed", stamp=stamp, note=note)
        record_event(letter, Kind.TASK_DISMISSED, note=note, stamp=stamp)
    tasks = [letter.task_id for letter in found]
    skipped = settle_dependents(tasks, dependents, stamp=stamp)
    lifecycle.withdraw(skipped, stamp=stamp)
    checkpoints.open_questions_after(tasks, stamp=stamp)
    return found


def insert_for_tasks(source: str, *, reason: str, error: str) -> str:
    """Return the SQL that inserts a dead letter for each task of the CTE `source`."""
    # The tasks have just failed. `reason` and `error` are SQL too.
    return f"""insert into ledger_deadletter (project_id, agent_id, task_id, type, payload, error,
        reason, retry_count, failed_at)
    select m.project_id, m.agent_id, m.id, m.type, m.payload, {error}, {reason}, m.retry_count,
        %(now)s
    from {source} m"""


INSERT_ONE = f"""with failed as (select * from ledger_task where id = %(task)s)
{insert_for_tasks("failed", reason="%(reason)s", error="%(error)s")}"""


def insert_dead_letter(task_id: UUID, reason: str, *, error: str, now: datetime) -> None:
    sql.run(INSERT_ONE, task=task_id, reason=reason, error=error, now=now)


def close(letter: DeadLetter, how: str, *, stamp: Stamp, **more: object) -> None:
    values = {"closed_at": stamp.at, "closed_as": how, "closed_by_name": stamp.actor.name, **more}
    DeadLetter.objects.filter(pk=letter.pk).update(**values)
    for name, value in values.items():
        setattr(letter, name, value)


def record_event(
    letter: DeadLetter, kind: Kind, *, note: str = "", stamp: Stamp, **more: Any
) -> None:
    journal.record(
        kind,
        subject_type="task",
        subject_id=letter.task_id,
        project_id=letter.project_id,
        agent_id=letter.agent_id,
        stamp=stamp,
        data={"dead_letter": str(letter.pk)}
        | ({"replayed_as": str(letter.replayed_as_id)} if letter.replayed_as_id else {})
        | more
        | noted(note),
    )
