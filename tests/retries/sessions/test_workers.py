"""Two real workers, a real beat and a real Redis: killed, stopped, and left without Redis."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.utils import timezone

from ledger.journal import SYSTEM
from ledger.models import Session, SessionBatch
from ledger.sessions import storing
from ledger.sessions.message_parts import Call, Text
from ledger.sessions.storing import NewMessage
from ledger.tokens import TrustedCaller
from retries.sessions.buffering import announce, connect_redis
from tests.client.model_server import ModelServer
from tests.processes import stop_process
from tests.retries.sessions.worlds import make_session, states
from tests.retries.trackers.test_llm import FINISH, INSERT, KEY, LINK, called
from tests.serving import ROOT, database_of_tests
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Worker:
    """A Celery worker, whose model is its own: the model that is asked says which worker asks."""

    process: "subprocess.Popen[bytes]"
    model: ModelServer


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    connect_redis().flushdb()
    env = os.environ | {
        "DATABASE_URL": database_of_tests(),
        "TENFOUR_SESSION_MESSAGE_BUFFER_TTL_SECONDS": "1",
        "TENFOUR_LLM_MODEL": "tiny",
        "TENFOUR_LLM_KEY": KEY,
        "C_FORCE_ROOT": "1",
    }
    celery = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "config"]
    quiet = ["-l", "ERROR"]
    plain = ["-P", "threads", "-c", "2", "--without-gossip", "--without-mingle", *quiet]
    schedule = os.path.join(os.environ["TENFOUR_DATA"], "beat-sessions.db")
    with ExitStack() as stack:
        started = []
        for number in range(2):
            model = stack.enter_context(ModelServer())
            model.replies.append(called(INSERT, LINK, FINISH))
            process = subprocess.Popen(
                [*celery, "worker", "-n", f"w{number}@here", *plain],
                cwd=ROOT,
                env=env | {"TENFOUR_LLM_URL": model.url},
            )
            started.append(Worker(process, model))
        beat = subprocess.Popen(
            [*celery, "beat", "--pidfile=", "-s", schedule, *quiet], cwd=ROOT, env=env
        )
        processes = [beat, *(worker.process for worker in started)]
        try:
            yield started
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)
                process.terminate()
            for process in processes:
                try:
                    process.wait(timeout=PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            connect_redis().flushdb()


def say(session: Session, *messages: NewMessage, announces: bool = True) -> None:
    caller = TrustedCaller(SYSTEM, project_id=session.project_id)
    stored = storing.store_messages(session.id, messages, caller=caller)
    if announces:
        announce(stored)


def todo(number: int, status: str) -> NewMessage:
    """Return a message in which a coding agent writes its list of two."""
    items = [{"content": f"Step {step}", "activeForm": "", "status": status} for step in range(2)]
    return NewMessage("assistant", [Call(f"t{number}", "TodoWrite", {"todos": items})])


def speak(session: Session, count: int) -> None:
    """Say something that is found again in what a model is asked about the session."""
    say(session, *(NewMessage("user", [Text(f"Build {session.pk}")]) for _ in range(count)))


def is_asked(worker: Worker, session: Session) -> bool:
    """Return whether a worker's model was asked about a session."""
    return any(str(session.pk) in json.dumps(asked.body) for asked in list(worker.model.asked))


def ask_model(workers: list[Worker], session: Session) -> Worker:
    """Return the worker whose model is asked about a new session, and is kept waiting."""
    for worker in workers:
        worker.model.released.clear()
    speak(session, 3)
    (asking,) = wait_until(lambda: [each for each in workers if is_asked(each, session)])
    return asking


def let_lock_expire(session: Session) -> None:
    """Move the end of the lock's life here, instead of waiting for it.

    A lock with a life of seconds would also be lost when the machine is busy.
    """
    locked = Session.objects.filter(pk=session.pk, lock_token__isnull=False)
    assert locked.update(lock_until=timezone.now() - timedelta(seconds=1)) == 1


def test_nothing_is_stuck_and_nothing_is_done_twice(workers: list[Worker]) -> None:
    """S2.8, S2.18, S2.25, S2.31: a lost announcement, a stopped worker, a worker killed in a batch."""
    # 1. Both workers, many sessions; half of them lose their timers, and Redis all that it had.
    many = [make_session() for _ in range(10)]
    for number, session in enumerate(many):
        say(session, *(todo(n, "pending") for n in range(20)), announces=number % 2 == 0)
    connect_redis().flushdb()
    for session in many:
        say(session, todo(20, "completed"))
    wait_until(lambda: all(states(session) == {"success": 21} for session in many))
    for session in many:
        tasks = session.task_set.order_by("order")
        assert [(task.order, task.state) for task in tasks] == [(1, "success"), (2, "success")]
        batches = SessionBatch.objects.filter(session=session)
        assert sum(batch.message_count for batch in batches) == 21
        assert {batch.outcome for batch in batches} == {"success"}

    # 2. A worker stops for longer than its lock lives, and continues when another has done its
    # work.
    session = make_session(tracker="llm")
    stopped = ask_model(workers, session)
    (other,) = (worker for worker in workers if worker is not stopped)
    stop_process(stopped.process.pid)
    let_lock_expire(session)
    for worker in workers:
        worker.model.released.set()
    wait_until(lambda: states(session) == {"success": 3})
    assert is_asked(other, session)
    outcomes = SessionBatch.objects.filter(session=session).order_by("id")
    assert [batch.outcome for batch in outcomes] == ["lost", "success"]
    assert session.task_set.count() == 1
    stopped.process.send_signal(signal.SIGCONT)
    proof = make_session(tracker="llm")

    def works_again() -> bool:
        """Give both workers something to do; return whether the first one has done some of it."""
        speak(proof, 1)
        wait_until(lambda: set(states(proof)) == {"success"})
        return is_asked(stopped, proof)

    wait_until(works_again)
    assert session.task_set.count() == 1, "a worker without the lock wrote"
    assert states(session) == {"success": 3}

    # 3. A worker is killed in the middle of a batch.
    session = make_session(tracker="llm")
    killed = ask_model(workers, session)
    killed.process.kill()
    killed.process.wait()
    let_lock_expire(session)
    for worker in workers:
        worker.model.released.set()
    wait_until(lambda: states(session) == {"success": 3})
    outcomes = SessionBatch.objects.filter(session=session).order_by("id")
    assert [batch.outcome for batch in outcomes] == ["lost", "success"]
    assert session.task_set.count() == 1
    assert set(session.message_set.values_list("recoveries", flat=True)) == {1}
    wait_until(lambda: Session.objects.get(pk=session.pk).lock_token is None)
