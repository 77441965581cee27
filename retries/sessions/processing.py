"""Process a session's buffer: take batches under the lock, and run the tracker on each."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, connections

from ledger.database import server_time
from ledger.journal import Stamp, clock
from ledger.models import Message
from ledger.models.session import TrackerName
from ledger.sessions import batches
from ledger.sessions.batches import Lock, LockLost, TakenBatch
from ledger.sessions.message_parts import parts_from_json
from ledger.sessions.tool_calls import ToolAnswer, ToolCall, ToolRefused
from ledger.sessions.tools import Worksheet, run_calls
from retries.sessions import buffering
from retries.sessions.buffering import InsertNewMessage
from retries.trackers.llm import LlmTracker
from retries.trackers.todo import TodoTracker
from retries.trackers.tracker import Batch, BatchMessage, KnownTask, Tracker

logger = logging.getLogger(__name__)

# messages around a batch; an agent may make several calls before it has the first one's answer
EARLIER, LATER = 3, 16
# messages beyond a full buffer that a batch may include
MAX_OVERFLOW = 16
# a lost database says nothing about a batch: the sweep returns its messages to the buffer
AWAY = (OperationalError, InterfaceError)


class NoTracker:
    """Makes no calls: the messages are only stored."""

    def respond(self, batch: Batch, ledger: object) -> None:
        """Do nothing."""


# how to make each tracker
TRACKERS: dict[str, Callable[[], Tracker]] = {
    TrackerName.TODO: TodoTracker,
    TrackerName.LLM: LlmTracker,
    TrackerName.NONE: NoTracker,
}


@dataclass(slots=True)
class BatchToolBox:
    """The ledger tools of one batch: each response is one statement."""

    lock: Lock
    batch: TakenBatch
    sheet: Worksheet
    is_finished: bool = False

    def call_all(self, calls: Sequence[ToolCall]) -> list[ToolAnswer]:
        if self.is_finished:
            name = calls[0].name if calls else "finish"
            raise ToolRefused(0, name, "the batch is finished.")
        work, answers = run_calls(self.sheet, calls)
        batches.write_response(
            self.lock,
            work,
            message_ids=[row["id"] for row in self.batch.messages],
            calls=len(calls),
            batch_id=self.batch.id,
            stamp=Stamp(clock("sessions")),
        )
        self.sheet, self.is_finished = work, work.is_finished
        return answers

    def list_tasks(self) -> tuple[KnownTask, ...]:
        links = batches.links_of_tasks(self.lock.session_id)
        return known_tasks(self.sheet, links)


def process_session(session_id: UUID | str) -> int | None:
    """Process what is pending now; return the number of messages, or None if it is locked."""
    # Messages that come meanwhile have events of their own.
    lock = batches.take_lock(UUID(str(session_id)))
    return None if lock is None else process_locked(lock)


def process_locked(lock: Lock) -> int:
    # The oldest messages come first, and the lock is released at the end.
    turns = settings.TENFOUR["SESSION_MESSAGE_BUFFER_MAX_TURNS"]
    most = turns + MAX_OVERFLOW
    processed = 0
    try:
        with renewed(lock):
            while batch := batches.begin_batch(
                lock, most=most, last=lock.last_order, now=server_time.now()
            ):
                process_batch(lock, batch)
                processed += len(batch.messages)
                if len(batch.messages) < most:
                    break
    except LockLost:
        logger.warning(
            "the lock of session %s was lost; its batch will be recovered", lock.session_id
        )
    finally:
        release(lock)
    return processed


def release(lock: Lock) -> None:
    # Release the lock also if the database connection was what failed.
    try:
        batches.release_lock(lock)
    except AWAY:
        if connection.in_atomic_block:
            raise
        connection.close()  # the next statement opens another
        batches.release_lock(lock)


def process_batch(lock: Lock, taken: TakenBatch) -> None:
    # An error of the tracker makes the batch fail with the error's text.
    preferences = lock.preferences
    sheet = batches.load_worksheet(
        lock.session_id, messages=len(taken.messages), preferences=preferences
    )
    ledger = BatchToolBox(lock, taken, sheet)
    failure = ""
    try:
        tracker = TRACKERS[lock.tracker]()
        tracker.respond(read_batch(lock, taken, sheet), ledger)
    except (LockLost, *AWAY):
        raise
    except Exception as error:
        logger.warning("session %s: a batch failed: %s", lock.session_id, error)
        failure = str(error) or type(error).__name__
    if not ledger.is_finished:
        batches.end_batch(lock, taken.id, failure=failure, now=server_time.now())
    lock.preferences[:] = ledger.sheet.preferences


def read_batch(lock: Lock, taken: TakenBatch, sheet: Worksheet) -> Batch:
    messages = tuple(
        BatchMessage(row["order"], row["role"], parts_from_json(row["content"]))
        for row in taken.messages
    )
    first, last = messages[0].order, messages[-1].order
    rows = Message.objects.filter(
        session_id=lock.session_id, order__gte=first - EARLIER, order__lte=last + LATER
    ).exclude(order__range=(first, last))
    around = [
        BatchMessage(row.order, row.role, parts_from_json(row.content))
        for row in rows.order_by("order")
    ]
    links = batches.links_of_tasks(lock.session_id) if sheet.tasks else {}
    return Batch(
        messages,
        known_tasks(sheet, links),
        tuple(message for message in around if message.order < first),
        tuple(sheet.preferences),
        tuple(message for message in around if message.order > last),
    )


def known_tasks(sheet: Worksheet, links: dict[UUID, list[int]]) -> tuple[KnownTask, ...]:
    return tuple(
        KnownTask(
            place,
            task.description,
            task.state,
            tuple(task.progress),
            tuple(links.get(task.id, ())) if task.id else (),
        )
        for place, task in enumerate(sheet.tasks, start=1)
    )


@contextmanager
def renewed(lock: Lock) -> Iterator[None]:
    # The thread has its own connection, and renews the lock at a third of its lifetime.
    ended = threading.Event()

    def renew() -> None:
        try:
            while not ended.wait(batches.lock_ttl() / 3):
                if not batches.renew_lock(lock):
                    return
        except AWAY as error:
            logger.warning("the lock of session %s was not renewed: %s", lock.session_id, error)
        finally:
            connections.close_all()  # `connection` would make one in a thread that used none

    thread = threading.Thread(target=renew, name=f"renew-{lock.session_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def buffer_new_message(event: InsertNewMessage) -> int:
    # A held lock is tried again after a second, with the flag that the event has.
    _, goes_on = buffering.read_buffer(event)
    if not goes_on:
        return 0
    processed = process_session(event.session_id)
    if processed is None:
        buffering.send_job(buffering.INSERT_JOB, event, countdown=buffering.RETRY_S)
        return 0
    return processed
