"""S2.30: One model response is one transaction: all of its calls take effect, or none."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.models import Event, Message, Session, SessionBatch, SessionTask
from ledger.sessions import batches
from ledger.sessions.batches import LockLost, SessionLocked, TakenBatch
from ledger.sessions.tool_calls import ToolCall, ToolRefused
from retries.sessions import processing, tool_calling
from retries.sessions.processing import BatchToolBox, process_session
from retries.trackers.tracker import Batch, ToolBox
from tests.conftest import Api
from tests.elsewhere import blocked
from tests.retries.sessions.worlds import make_session, states, store
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

Response = Sequence[ToolCall] | Exception


def insert(text: str, after: int = 0) -> ToolCall:
    return ToolCall("insert_task", {"after_task_order": after, "task_description": text})


def append(order: int, first: int, last: int) -> ToolCall:
    return ToolCall(
        "append_messages_to_task", {"task_order": order, "message_id_range": [first, last]}
    )


class Scripted:
    """A tracker that gives these responses."""

    def __init__(self, *responses: Response) -> None:
        self.responses = responses
        self.seen: list[Any] = []

    def __call__(self) -> "Scripted":
        return self

    def respond(self, batch: Batch, ledger: ToolBox) -> None:
        self.seen.append(batch)
        for response in self.responses:
            if isinstance(response, Exception):
                raise response
            self.seen.append(ledger.call_all(response))


def begin(session: Session, messages: int) -> tuple[batches.Lock, TakenBatch, BatchToolBox]:
    """Take the session's lock and its first batch, which has this many messages."""
    lock = batches.take_lock(session.id)
    assert lock
    taken = batches.begin_batch(lock, most=32, last=32, now=session.created_at)
    assert taken
    sheet = batches.load_worksheet(session.id, messages=messages, preferences=[])
    return lock, taken, BatchToolBox(lock, taken, sheet)


Run = Callable[..., Scripted]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Process a session with a tracker that gives these responses."""

    def process(session: Session, *responses: Response) -> Scripted:
        tracker = Scripted(*responses)
        monkeypatch.setitem(processing.TRACKERS, "todo", tracker)
        assert process_session(session.id) is not None
        return tracker

    return process


def test_a_response_takes_effect_as_a_whole(run: Run) -> None:
    """S2.1, S2.4, S2.31: the task and its messages, which name the task of the same response."""
    session = make_session()
    store(session, 3)
    tracker = run(
        session,
        [
            insert("Fix the tests"),
            insert("Write the docs", after=1),
            append(1, 0, 1),
            ToolCall("append_task_progress", {"task_order": 1, "progress": "Found the cause"}),
            ToolCall("append_messages_to_planning_section", {"message_ids": [2, 99]}),
            ToolCall("submit_user_preference", {"preference": "Answer in English"}),
            ToolCall("report_thinking", {"thinking": "Hm"}),
            insert("Read the code"),
            ToolCall("finish"),
        ],
    )
    found = SessionTask.objects.filter(session=session).order_by("order")
    assert [(task.order, task.description, task.state) for task in found] == [
        (1, "Read the code", "pending"),
        (2, "Fix the tests", "running"),
        (3, "Write the docs", "pending"),
    ]
    assert found[1].progress == ["Found the cause"]
    messages = Message.objects.filter(session=session).order_by("order")
    assert [(each.session_task_id, each.planning) for each in messages] == [
        (found[1].id, False),
        (found[1].id, False),
        (None, True),
    ]
    assert states(session) == {"success": 3}
    assert (session.task_count, session.task_running_count) == (3, 1)
    assert session.preferences == ["Answer in English"]
    batch = SessionBatch.objects.get()
    assert (batch.outcome, batch.responses, batch.calls, batch.message_count) == (
        "success",
        1,
        9,
        3,
    )
    assert [answer.done for answer in tracker.seen[1]] == [True] * 9
    kinds = list(Event.objects.filter(subject_type="session").values_list("kind", flat=True))
    assert sorted(kinds) == ["session.created", "session.processed"] + ["session.task_created"] * 3
    assert session.lock_token is None


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (ToolCall("drop_tables"), "Call 2 (drop_tables): there is no such tool."),
        (append(0, 0, 0), "task_order: Input should be greater than or equal to 1"),
        (append(1, -1, 0), "message_id_range/0: Input should be greater than or equal to 0"),
        (
            ToolCall("append_messages_to_task", {"task_order": 1, "message_id_range": [0]}),
            "at least 2",
        ),
        (ToolCall("update_task", {"task_order": 1, "task_status": "paused"}), "task_status: Input"),
        (
            ToolCall("update_task", {"task_order": "1"}),
            "task_order: Input should be a valid integer",
        ),
        (ToolCall("finish", {"now": True}), "now: Extra inputs are not permitted"),
        (insert("x" * 2001), "task_description: String should have at most 2000"),
    ],
    ids=lambda each: each.name if isinstance(each, ToolCall) else "",
)
def test_a_refused_call_undoes_its_response_and_no_other(
    run: Run, refused: ToolCall, reason: str
) -> None:
    """S2.2, S2.3, S2.5, S2.31: the batch fails with its reason; what came before it stays."""
    session = make_session()
    store(session, 2)
    run(session, [insert("Stays"), append(1, 0, 0)], [insert("Goes", after=1), refused])
    assert [task.description for task in session.task_set.all()] == ["Stays"]
    assert states(session) == {"failed": 2}
    batch = SessionBatch.objects.get()
    assert (batch.outcome, batch.responses) == ("failed", 1)
    assert reason in batch.reason
    assert reason in Event.objects.get(kind="session.failed").data["reason"]
    assert (session.last_outcome, session.lock_token, session.task_count) == ("failed", None, 1)


def test_an_exception_undoes_nothing_but_the_rest(run: Run) -> None:
    """S2.3, S2.5"""
    session = make_session()
    store(session, 1)
    run(session, [insert("Stays")], TimeoutError("The model did not answer."), [insert("Never")])
    assert [task.description for task in session.task_set.all()] == ["Stays"]
    assert SessionBatch.objects.get().reason == "The model did not answer."
    assert states(session) == {"failed": 1}


def test_soft_answers_are_sentences_and_the_rest_stays(run: Run) -> None:
    session = make_session()
    store(session, 2)
    tracker = run(
        session,
        [
            insert("One"),
            insert("Nowhere", after=7),
            append(5, 0, 1),
            append(1, 1, 0),
            append(1, 40, 50),
            ToolCall("update_task", {"task_order": 1, "task_status": "success"}),
            append(1, 0, 1),
            ToolCall("append_task_progress", {"task_order": 1, "progress": "More"}),
        ],
    )
    answers = tracker.seen[1]
    assert [answer.done for answer in answers] == [True, *[False] * 4, True, False, False]
    assert "out of range" in answers[1].text
    assert "already success. Update its status to running first." in answers[6].text
    task = session.task_set.get()
    assert (task.state, task.progress, task.message_set.count()) == ("success", [], 0)
    assert states(session) == {"success": 2}


def counts() -> tuple[int, ...]:
    """Counted tasks, tasks, linked messages and told tasks, as any other connection sees them."""
    with connection.cursor() as cursor:
        cursor.execute(
            """select s.task_count, (select count(*) from ledger_sessiontask),
                (select count(*) from ledger_message where session_task_id is not null),
                (select count(*) from ledger_event where kind = 'session.task_created')
            from ledger_session s"""
        )
        return tuple(cursor.fetchone())


def test_an_outside_reader_never_sees_half_a_response(
    elsewhere: Callable[..., Future[Any]],
) -> None:
    """S2.6: each response adds two tasks and links two messages to each; its last call waits."""
    session = make_session()
    store(session, 16)
    _, _, box = begin(session, messages=16)
    for n in range(4):
        calls = [
            insert(f"a{n}"),
            insert(f"b{n}"),
            append(1, 4 * n, 4 * n + 1),
            append(2, 4 * n + 2, 4 * n + 3),
        ]
        with transaction.atomic():
            Message.objects.select_for_update().get(session=session, order=4 * n + 4)
            response = elsewhere(partial(box.call_all, calls))
            with blocked(response):
                assert counts() == (2 * n, 2 * n, 4 * n, 2 * n)
        assert all(answer.done for answer in response.result(PATIENCE_S))
        assert counts() == (2 * n + 2, 2 * n + 2, 4 * n + 4, 2 * n + 2)


def test_an_insertion_locks_the_session_alone(elsewhere: Callable[..., Future[Any]]) -> None:
    """S2.7, S2.8: until commit, a second writer waits; another session does not."""
    one, other = make_session(), make_session()

    def call(session: Session) -> int:
        return len(tool_calling.call_tools(session.id, [insert("Task")], stamp=Stamp(SYSTEM)))

    with transaction.atomic():
        call(one)
        assert elsewhere(lambda: call(other)).result(PATIENCE_S) == 1
        second = elsewhere(lambda: call(one))
        with blocked(second):
            pass
    assert second.result(PATIENCE_S) == 1
    assert list(one.task_set.order_by("order").values_list("order", flat=True)) == [1, 2]


def test_a_worker_that_lost_the_lock_writes_nothing() -> None:
    """S2.8, S2.13: the token is compared by every write."""
    session = make_session()
    store(session, 2)
    lock, taken, box = begin(session, messages=2)
    assert batches.take_lock(session.id) is None
    with connection.cursor() as cursor:
        cursor.execute("update ledger_session set lock_until = now() - interval '1 second'")
    assert not batches.renew_lock(lock)
    with pytest.raises(LockLost):
        box.call_all([insert("Late")])
    with pytest.raises(LockLost):
        batches.end_batch(lock, taken.id, now=session.created_at)
    other = batches.take_lock(session.id)
    assert other and other.token != lock.token
    batches.release_lock(lock)
    session.refresh_from_db()
    assert session.lock_token == other.token
    assert not session.task_set.exists()
    # what the first left went back to the buffer, once
    assert states(session) == {"pending": 2}
    assert SessionBatch.objects.get().outcome == "lost"


def test_a_lost_batch_returns_once_and_then_fails() -> None:
    """A message that a response gave to a task is done; the others are tried once more."""
    session = make_session()
    store(session, 2)
    for tries, expected in enumerate(({"success": 1, "pending": 1}, {"success": 1, "failed": 1})):
        _, _, box = begin(session, messages=2 - tries)
        if not tries:
            box.call_all([insert("Half"), append(1, 0, 0)])
        with connection.cursor() as cursor:
            cursor.execute("update ledger_session set lock_until = now() - interval '1 second'")
        again = batches.take_lock(session.id)
        assert again
        batches.release_lock(again)
        assert states(session) == expected
    assert session.task_set.count() == 1


def test_a_finished_batch_is_not_processed_again_after_a_kill(run: Run) -> None:
    """`finish` commits with its response, so there is no moment in between."""
    session = make_session()
    store(session, 1)
    tracker = run(session, [insert("Once"), ToolCall("finish")], [insert("Too late", after=1)])
    assert len(tracker.seen) == 2
    assert states(session) == {"success": 1}
    assert session.task_set.count() == 1
    assert SessionBatch.objects.get().outcome == "success"


def test_a_batch_reads_what_it_needs(run: Run) -> None:
    """S2.28: the oldest 32 at a time; the last three messages before them come for context."""
    session = make_session()
    store(session, 40)
    tracker = run(session, [insert("One"), append(1, 0, 1)])
    first, _, second, _ = tracker.seen
    assert [len(first.messages), len(second.messages)] == [32, 8]
    assert [message.order for message in first.messages] == list(range(1, 33))
    assert [message.order for message in second.earlier] == [30, 31, 32]
    assert second.tasks[0].messages == (1, 2)
    assert states(session) == {"success": 40}


def test_calls_over_http_are_one_response(operator: Api) -> None:
    session = make_session()
    store(session, 3)
    url = f"/sessions/{session.id}/tool-calls"
    calls = [
        {"name": "insert_task", "arguments": {"after_task_order": 0, "task_description": "A key: "
         "AKIAIOSFODNN7EXAMPLE"}, "id": "c1"},
        {"name": "append_messages_to_task", "arguments": {"task_order": 1, "message_id_range": [0, 1]}},
        {"name": "append_task_progress", "arguments": {"task_order": 9, "progress": "x"}},
    ]  # fmt: skip
    for _ in range(2):
        done = operator("POST", url, {"calls": calls}, Idempotency_Key="r1")
        assert done.status_code == 200, done.body
    assert [(each["id"], each["done"]) for each in done.body["answers"]] == [
        ("c1", True), ("", True), ("", False),
    ]  # fmt: skip
    tasks = operator("GET", f"/sessions/{session.id}/tasks").body["data"]
    assert [(task["order"], task["message_orders"], task["state"]) for task in tasks] == [
        (1, [1, 2], "running")
    ]
    assert "AKIA" not in tasks[0]["description"]
    refused = operator("POST", url, {"calls": [*calls, {"name": "explode"}]})
    assert (refused.status_code, refused.body["code"]) == (422, "tool_call_refused")
    assert refused.body["errors"][0]["pointer"] == "/calls/3"
    assert session.task_set.count() == 1
    assert operator("POST", url, {"calls": []}).status_code == 422
    for name, arguments in (
        ("append_messages_to_task", {"task_order": 0, "message_id_range": [0, 1]}),
        ("append_messages_to_task", {"task_order": 1, "message_id_range": [-2, 1]}),
        ("update_task", {"task_order": 1, "task_status": "paused"}),
    ):
        bad = operator("POST", url, {"calls": [*calls, {"name": name, "arguments": arguments}]})
        assert (bad.status_code, bad.body["code"]) == (422, "tool_call_refused"), arguments
        assert bad.body["errors"][0]["pointer"] == "/calls/3"
    # a gap in the orders is a sentence for the model, and no task
    gap = {"name": "insert_task", "arguments": {"after_task_order": 7, "task_description": "x"}}
    assert operator("POST", url, {"calls": [gap]}).body["answers"][0]["done"] is False
    far = operator("POST", url, {"calls": calls, "first_message": 4})
    assert far.body["errors"][0]["pointer"] == "/first_message"
    assert batches.take_lock(session.id)
    locked = operator("POST", url, {"calls": calls})
    assert (locked.status_code, locked.body["code"]) == (409, "session_locked")
    assert locked["Retry-After"] == "1"
    assert session.task_set.count() == 1
    names = [tool["name"] for tool in operator("GET", "/sessions/tools").body["data"]]
    assert len(names) == 8 and "append_messages_to_planning_section" in names


def test_a_call_outside_a_batch_is_refused_while_locked() -> None:
    session = make_session()
    store(session)
    with pytest.raises(Invalid):
        tool_calling.call_tools(
            session.id, [ToolCall("finish")], first_message=2, stamp=Stamp(SYSTEM)
        )
    with pytest.raises(ToolRefused):
        tool_calling.call_tools(session.id, [ToolCall("nothing")], stamp=Stamp(SYSTEM))
    session.refresh_from_db()
    assert session.lock_token is None, "the lock goes with its transaction"
    assert batches.take_lock(session.id)
    with pytest.raises(SessionLocked):
        tool_calling.call_tools(session.id, [ToolCall("finish")], stamp=Stamp(SYSTEM))


def test_the_lock_is_renewed_while_a_batch_runs(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """S2.9: a tracker that takes longer than the lock's lifetime keeps the session."""
    settings.TENFOUR = settings.TENFOUR | {"SESSION_MESSAGE_PROCESSING_TIMEOUT_SECONDS": 9}
    session = make_session()
    store(session)
    refused: list[Any] = []

    class Slow:
        def respond(self, batch: Batch, ledger: ToolBox) -> None:
            begun = Session.objects.get().lock_until
            wait_until(lambda: Session.objects.get().lock_until != begun)
            refused.append(batches.take_lock(session.id))
            ledger.call_all([insert("Done")])

    monkeypatch.setitem(processing.TRACKERS, "todo", Slow)
    process_session(session.id)
    assert refused == [None]
    assert states(session) == {"success": 1}
