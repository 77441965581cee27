"""Messages of a failed batch are processed again when someone asks for it, and never twice."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection
from django.utils import timezone

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Session
from ledger.sessions import batches
from retries.sessions import buffering, retrying
from retries.sessions.processing import BatchToolBox, buffer_new_message
from tests.conftest import Api
from tests.retries.sessions.test_task_agent_atomicity import append, insert
from tests.retries.sessions.worlds import make_session, sent_jobs, states, store
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def fail_batch(session: Session, *, linked: int = 0) -> None:
    """Let a batch of everything fail, after it has given its first messages to a task."""
    lock = batches.take_lock(session.pk)
    assert lock
    taken = batches.begin_batch(lock, most=32, last=99, now=session.created_at)
    assert taken
    if linked:
        sheet = batches.load_worksheet(session.pk, messages=len(taken.messages), preferences=[])
        BatchToolBox(lock, taken, sheet).call_all([insert("Half"), append(1, 0, linked - 1)])
    batches.end_batch(lock, taken.id, failure="The model answered turtles", now=timezone.now())
    batches.release_lock(lock)


def test_failed_messages_return_once_and_are_read_by_another_tracker(
    coder: Api, agent: Agent
) -> None:
    session = make_session(agent, tracker="llm")
    store(session, 5)
    fail_batch(session, linked=2)
    assert states(session) == {"failed": 5}
    path = f"/sessions/{session.pk}/retry"
    assert coder("POST", path, {"tracker": "none"}).status_code == 422
    answer = coder("POST", path, {"tracker": "todo"})
    assert (answer.status_code, answer.body) == (200, {"returned": 3})
    assert states(session) == {"success": 2, "pending": 3}
    assert (session.tracker, session.last_outcome) == ("todo", None)
    # what came back is announced as one job, which a worker runs at once
    (job,) = sent_jobs(session.pk)
    event = buffering.InsertNewMessage.from_json(job["event"])
    assert (job["eta"], buffer_new_message(event)) == (None, 3)
    assert states(session) == {"success": 5}
    assert session.task_set.count() == 1
    assert coder("POST", path).body == {"returned": 0}
    (told,) = Event.objects.filter(kind="session.retried")
    assert (told.data, told.actor_name) == ({"messages": 3, "tracker": "todo"}, "coder")


def test_two_retries_at_once_return_each_message_once(agent: Agent) -> None:
    session = make_session(agent)
    store(session, 30)
    fail_batch(session)
    barrier = Barrier(4)

    def retry(_: int) -> int:
        barrier.wait(PATIENCE_S)
        try:
            return retrying.retry_failed(session, stamp=Stamp(SYSTEM))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        returned = list(pool.map(retry, range(4)))
    assert sorted(returned) == [0, 0, 0, 30]
    assert states(session) == {"pending": 30}
