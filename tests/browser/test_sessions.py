"""Sessions in a browser: whole in every theme and width, read and flushed by key, without scripts."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db.models import F
from playwright.sync_api import expect

from ledger.models import Agent, Message, Session
from ledger.sessions.message_parts import Call, Result, Text, parts_as_json
from tests.browser.conftest import OWN, Visitor, assert_whole
from tests.dashboard.sessions.conversations import (
    HOSTILE,
    Line,
    bash,
    make_batch,
    make_busy_session,
    make_session,
    recount,
)
from tests.dashboard.worked import claimed, enqueued
from tests.factories import make_agent

Visit = Callable[..., Visitor]


@pytest.fixture
def busy(coder: Agent, now: datetime) -> dict[str, str]:
    """Addresses of a session with everything, one that failed, and a task, beside twelve others."""
    codex = make_agent("codex")
    for number in range(12):
        title = ("Move the export", HOSTILE, "", "<img src=x onerror=alert(1)>")[number % 4]
        at = now - timedelta(minutes=number)
        made = make_session(
            (coder, codex)[number % 2],
            [("user", [Text(title)])],
            now=at,
            pending=number % 3 // 2,
            tracker=("todo", "llm", "none")[number % 3],
        )
    make_batch(made, 1, 1, outcome="failed", reason=HOSTILE)
    Message.objects.filter(session=made).update(state="failed")
    Session.objects.filter(pk=made.pk).update(tracker="llm")
    recount(made)
    session = make_busy_session(coder, now=now)
    task = enqueued(coder, HOSTILE, now=now)
    attempt = claimed(coder, task, now=now)
    Message.objects.filter(session=session).update(attempt=attempt)
    return {"failed": f"/sessions/{made.pk}/", "busy": f"/sessions/{session.pk}/",
            "task": f"/tasks/{task}/"}  # fmt: skip


def test_all_pages_are_whole(visit: Visit, busy: dict[str, str]) -> None:
    visitor = visit().signed_in()
    for path in ("/sessions/", "{busy}", "{failed}"):
        assert_whole(visitor, path.format(**busy))
    for path, part in {
        "/sessions/?q=agent:none": OWN,
        "{busy}?make=4": "#todos",
        "{busy}?show=errors": "#conversation-bar",
        "{busy}?find=nothing": "#nothing",
        "{busy}messages/11/": OWN,
        "{task}": OWN,
    }.items():
        assert_whole(visitor, path.format(**busy), part=part)


def test_a_conversation_is_read_by_key(visit: Visit, coder: Agent, now: datetime) -> None:
    """J and K go from turn to turn, X to the next error even in a fold, T to the attempt."""
    lines: list[Line] = [("user", [Text("Go on")])]
    for n in range(25):
        lines.append(("assistant", [Text(f"Step {n}")]))
        lines += bash(f"c{n}", f"make {n}", "Exit code 1\nboom", is_error=n in (3, 12))
    lines += bash("big", "cat all", "x" * 9_000 + "THE-END")
    session = make_session(coder, lines, now=now)
    earlier = make_session(coder, [("user", [Text("Start")])], now=now - timedelta(hours=1))
    task = enqueued(coder, "Round once", now=now)
    Message.objects.filter(session=session).update(attempt=claimed(coder, task, now=now))
    visitor = visit()
    page = visitor.sign_in(f"/sessions/{session.pk}/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("#m-2[data-cursor]")).to_be_visible()
    page.keyboard.press("k")
    expect(page.locator("#m-1[data-cursor]")).to_be_visible()
    folded = page.locator("#m-39")
    expect(folded).to_be_hidden()
    page.keyboard.press("x")
    page.keyboard.press("x")
    expect(folded).to_be_visible()
    expect(folded.locator("details.call")).to_have_attribute("open", "")
    # the body of a long call is fetched when it is opened, and stays after a poll
    long = page.locator("#m-77 details.call")
    long.locator("summary").click()
    expect(long).to_contain_text("THE-END")
    Session.objects.filter(pk=session.pk).update(version=F("version") + 1, updated_at=now)
    more = parts_as_json([Text("One more")])
    Message.objects.create(
        session=session, order=79, role="assistant", content=more, state="pending",
        sent_at=now, created_at=now,
    )  # fmt: skip
    Session.objects.filter(pk=session.pk).update(updated_at=now + timedelta(seconds=1))
    recount(session)
    page.evaluate("document.activeElement.blur()")
    page.locator("body").press("g")  # a key makes the next poll quick
    expect(page.locator("#m-79")).to_contain_text("One more")
    expect(long).to_contain_text("THE-END")
    expect(folded).to_be_visible()
    page.goto(f"{visitor.url}/sessions/{session.pk}/#m-39")
    expect(page.locator("#m-39")).to_be_visible()
    page.keyboard.press("J")  # to the next session, with Shift
    page.wait_for_url(f"**/sessions/{earlier.pk}/")
    page.keyboard.press("K")
    page.wait_for_url(f"**/sessions/{session.pk}/")
    page.keyboard.press("t")
    page.wait_for_url(f"**/tasks/{task}/**")
    page.locator("#conversation-1").click()
    page.wait_for_url(f"**/sessions/{session.pk}/?at=1#m-1")
    assert visitor.complaints == []


def test_a_buffer_is_flushed_and_a_task_is_made(visit: Visit, coder: Agent, now: datetime) -> None:
    """B flushes the row under the cursor and the open session; the form of a to-do has errors."""
    quiet = make_session(coder, [("user", [Text("One")])], now=now, pending=1, tracker="none")
    session = make_busy_session(coder, now=now - timedelta(minutes=1))
    Session.objects.filter(pk=session.pk).update(tracker="none")
    visitor = visit()
    page = visitor.sign_in("/settings/")
    page.keyboard.type("gc")  # in one call, so that the second is in time
    page.wait_for_url("**/sessions/")
    page.keyboard.press("j")
    page.keyboard.press("b")
    expect(page.locator("#toasts")).to_contain_text("Processed 1 message.")
    assert Message.objects.get(session=quiet).state == "success"
    page.goto(f"{visitor.url}/sessions/{session.pk}/")
    page.keyboard.press("b")
    expect(page.locator("#toasts")).to_contain_text("Processed 2 messages.")
    expect(page.locator("#buffer")).to_have_count(0)
    page.locator("#todo-4 >> text=Make a task…").click()
    page.fill("#task-link", "03-01:task-9")
    page.click("button[name=link]")
    expect(page.locator("#link-error")).to_contain_text("There is no task “03-01:task-9”")
    expect(page.locator("#task-title")).to_have_value("Write the migration note for partners")
    page.click("text=Make the task")
    expect(page.locator("#toasts")).to_contain_text("Made a task of to-do 4 for coder.")
    expect(page.locator("#todo-4 a.key")).to_be_visible()


def test_all_of_it_works_without_scripts(visit: Visit, coder: Agent, now: datetime) -> None:
    long = "x" * 9_000
    lines: list[Line] = [
        ("user", [Text(long)]),
        ("assistant", [Call("a", "Write", {"content": long})]),
        ("user", [Result("a", f"{long}THE-END")]),
    ]
    session = make_session(coder, lines, now=now, pending=1, tracker="none")
    visitor = visit(java_script_enabled=False).signed_in()
    page = visitor.open("/sessions/?q=agent:coder")
    page.click("#rows tbody a >> nth=0")
    page.locator("details.call summary").click()
    page.click("text=Read the whole call")
    expect(page.locator("#message")).to_contain_text("THE-END")
    page.go_back()
    page.click("text=Prompts")
    expect(page.locator(".turn")).to_have_count(1)
    page.fill("#query", "no such words")
    page.keyboard.press("Enter")
    expect(page.locator("#nothing")).to_contain_text("No message contains")
    page.click("text=Show the conversation")
    page.click("text=Flush now")
    expect(page.locator("#toasts")).to_contain_text("Processed 1 message.")
    assert set(Message.objects.filter(session=session).values_list("state", flat=True)) == {
        "success"
    }


def test_a_failed_batch_is_processed_again(visit: Visit, coder: Agent, now: datetime) -> None:
    session = make_session(coder, [("user", [Text("Go on")])], now=now, tracker="todo")
    make_batch(session, 1, 1, outcome="failed", reason=HOSTILE)
    Message.objects.filter(session=session).update(state="failed")
    recount(session)
    visitor = visit()
    page = visitor.sign_in(f"/sessions/{session.pk}/")
    expect(page.locator("#failed-batch")).to_contain_text("1 message of this session is marked")
    page.get_by_role("button", name="Process again").click()
    expect(page.locator("#toasts")).to_contain_text("1 message will be processed again.")
    assert Message.objects.get().state == "pending"
    assert visitor.complaints == [] and page.title() != "owned"
