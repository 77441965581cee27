"""Sessions with conversations to look at, among them long and hostile ones."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q

from ledger.models import Agent, Message, Session, SessionBatch, SessionTask
from ledger.sessions.message_parts import Call, Part, Result, Text, Thinking, parts_as_json
from ledger.states import BatchOutcome, MessageState

HOSTILE = "<script>document.title = 'owned'</script>\u202etxt.exe" + "w" * 150
Line = tuple[str, Sequence[Part]]


def bash(id: str, command: str, output: str, *, is_error: bool = False) -> list[Line]:
    """Return a call of a shell and its result."""
    return [
        ("assistant", [Call(id, "Bash", {"command": command})]),
        ("user", [Result(id, output, is_error)]),
    ]


def todo(id: str, subject: str) -> list[Line]:
    return [
        ("assistant", [Call(id, "TaskCreate", {"subject": subject})]),
        ("user", [Result(id, f"Task #{id} created successfully: {subject}")]),
    ]


FAILED_RUN = """F.F...F.....................................
E   AssertionError: assert Decimal('118.99') == Decimal('119.00')
tests/ledger/test_totals.py:88: AssertionError
=== 3 failed, 41 passed in 6.02s ==="""

TOTALS: list[Line] = [
    (
        "user",
        [
            Text(
                "Rewrite the invoice totals parser so that credit notes with mixed VAT rates add up "
                "to the cent.\n\nRun `make test` before you stop. Use **pytest**, not unittest."
            )
        ],
    ),
    ("system", [Text("skill listing: pdf, xlsx")]),
    ("user", [Text("<system-reminder>Mind the rules</system-reminder>")]),
    (
        "assistant",
        [
            Thinking("The rounding happens per line today."),
            Text("I’ll read the parser and its tests first, then plan the change."),
        ],
    ),
    *todo("1", "Reproduce the three failing credit notes"),
    *todo("2", "Round once per VAT rate and document"),
    ("assistant", [Call("r1", "Read", {"file_path": "src/ledger/totals.py"})]),
    ("user", [Result("r1", "\n".join(f"line {n}" for n in range(214)))]),
    *bash("b1", "pytest -q tests/ledger/test_totals.py -k credit", FAILED_RUN, is_error=True),
    ("assistant", [Text("Reproduced. I’ll move the rounding into `VatGroup.close()`.")]),
    (
        "assistant",
        [Call("e1", "Edit", {"file_path": "src/vat.py", "old_string": "a", "new_string": "b\nc"})],
    ),
    ("user", [Result("e1", "The file was updated.")]),
    *bash("b2", "ls /srv/fixtures", "Exit code 2\nls: No such file or directory", is_error=True),
    *bash("b3", "pytest -q tests/ledger", "=== 212 passed in 31.10s ==="),
    ("user", [Text(f"Leave the customer's name as it is: {HOSTILE}")]),
    ("assistant", [Text("Adding an alias."), Call("e2", "Edit", {"file_path": HOSTILE})]),
]


def make_session(
    agent: Agent, lines: Iterable[Line] = (), *, now: datetime, pending: int = 0, **more: Any
) -> Session:
    """Return a session with messages, of which the last `pending` are in the buffer."""
    lines = list(lines)
    first = next((p.text for r, ps in lines if r == "user" for p in ps if isinstance(p, Text)), "")
    values = {"title": first[:160], "tracker": "todo", "last_message_at": now, **more}
    session = Session.objects.create(
        project=agent.project, agent=agent, created_at=now, updated_at=now, **values
    )
    at = values["last_message_at"] - timedelta(seconds=5 * len(lines))
    done = len(lines) - pending
    Message.objects.bulk_create(
        Message(
            session=session,
            order=number,
            role=role,
            content=parts_as_json(parts),
            state=MessageState.SUCCESS if number <= done else MessageState.PENDING,
            sent_at=at + timedelta(seconds=5 * number),
            created_at=now,
        )
        for number, (role, parts) in enumerate(lines, 1)
    )
    return recount(session)


def make_batch(session: Session, first: int, last: int, **more: Any) -> SessionBatch:
    """Return a batch of the messages from `first` to `last`."""
    at = session.last_message_at
    values = {"outcome": BatchOutcome.SUCCESS, "started_at": at, "ended_at": at, **more}
    batch = SessionBatch.objects.create(
        session=session,
        tracker=session.tracker,
        first_order=first,
        last_order=last,
        message_count=last - first + 1,
        **values,
    )
    messages = Message.objects.filter(session=session, order__gte=first, order__lte=last)
    if values["outcome"] == BatchOutcome.SUCCESS:
        messages.update(batch=batch)
    else:
        messages.update(batch=batch, state=MessageState.FAILED)
    Session.objects.filter(pk=session.pk).update(last_outcome=values["outcome"])
    recount(session)
    return batch


def make_todo(
    session: Session, order: int, description: str, *messages: int, **more: Any
) -> SessionTask:
    """Return a to-do that messages belong to."""
    now = session.last_message_at
    todo = SessionTask.objects.create(
        session=session,
        order=order,
        description=description,
        created_at=now,
        updated_at=now,
        **more,
    )
    Message.objects.filter(session=session, order__in=messages).update(session_task=todo)
    recount(session)
    return todo


def recount(session: Session) -> Session:
    """Set the counters on a session's row from its messages and to-dos."""

    def state(name: str) -> Count:
        return Count("pk", filter=Q(state=name))

    counts = session.message_set.aggregate(
        message_count=Count("pk"),
        pending_count=state("pending"),
        running_count=state("running"),
        success_count=state("success"),
        failed_count=state("failed"),
    ) | session.task_set.aggregate(
        task_count=Count("pk"),
        task_running_count=state("running"),
        task_success_count=state("success"),
        task_failed_count=state("failed"),
    )
    Session.objects.filter(pk=session.pk).update(**counts)
    session.refresh_from_db()
    return session


def make_busy_session(agent: Agent, *, now: datetime) -> Session:
    """Return a session with batches, to-dos in every state, notes, and a buffer."""
    session = make_session(
        agent,
        TOTALS,
        now=now,
        pending=2,
        preferences=["pytest, not unittest", "Nothing under `ledger/generated/` is edited"],
    )
    make_batch(session, 1, 8, calls=3)
    make_batch(session, 9, 20, calls=1)
    make_todo(
        session,
        1,
        "Reproduce the three failing credit notes",
        5,
        11,
        12,
        state="success",
        progress=["All three mix 7% and 19%"],
    )
    make_todo(session, 2, "Round once per VAT rate and document", 7, state="running")
    make_todo(session, 3, HOSTILE, 13, 14, 15, state="failed", progress=[HOSTILE])
    make_todo(session, 4, "Write the migration note for partners", 16)
    Message.objects.filter(session=session, order=4).update(planning=True)
    return session
