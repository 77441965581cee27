"""Import a transcript on its page: once and again, and errors at the field with their line."""

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from ledger.models import Agent, Message, Session
from tests.dashboard.seen import html, words

pytestmark = pytest.mark.django_db
HOSTILE = "<script>document.title = 'owned'</script>"


def line(number: int, content: Any, role: str = "user") -> str:
    at = timezone.now().isoformat()
    record = {"type": role, "sessionId": "s-1", "uuid": f"u-{number}", "timestamp": at}
    return json.dumps(record | {"message": {"role": role, "content": content}}) + "\n"


def form(text: str, **more: str) -> dict[str, Any]:
    file = SimpleUploadedFile("session.jsonl", text.encode())
    return {"project": "default", "agent": "coder", "tracker": "todo", "file": file} | more


CALL = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make test"}}]


def test_a_growing_file_is_imported_again(browser: Client, agent: Agent) -> None:
    assert "Import transcript" in words(browser.get("/sessions/"))
    assert '<option value="coder"' in html(browser.get("/sessions/import/"))
    text = line(1, f"Fix the totals {HOSTILE}") + line(2, CALL, "assistant")
    page = browser.post("/sessions/import/", form(text), follow=True)
    session = Session.objects.get()
    assert page.redirect_chain == [(f"/sessions/{session.pk}/", 302)]
    assert "Imported 2 new messages." in words(page) and "make test" in words(page)
    assert HOSTILE not in page.content.decode()
    again = browser.post("/sessions/import/", form(text), follow=True)
    assert "This file was imported before. It has no new messages." in words(again)
    grown = text + line(3, "And the note") + '{"type": "user", "mess'
    more = browser.post("/sessions/import/", form(grown), follow=True)
    said = words(more)
    assert "Imported 1 new message. Line 4 is cut off: import the file again when it is" in said
    assert Session.objects.count() == 1 and Message.objects.count() == 3


def test_lines_that_cannot_be_read_are_named(browser: Client, agent: Agent) -> None:
    bad = line(1, "Fix it") + f"{HOSTILE} is no JSON\n" + line(2, "More") + "\0\0\n"
    page = browser.post("/sessions/import/", form(bad), follow=True)
    text = words(page)
    assert "2 lines can't be read and were left out: 2, 4. Line 2: it is not JSON" in text
    assert "Imported 2 new messages." in text and HOSTILE not in page.content.decode()


def test_errors_stand_at_the_field_and_nothing_is_stored(browser: Client, agent: Agent) -> None:
    for sent, said in (
        (form("{}"), "No line of it is a message of Claude Code or Codex."),
        (form(""), "The file is empty"),
        (form(line(1, "x"), agent="nobody"), "There is no agent “nobody” in default."),
        (form(line(1, "x"), tracker="magic"), "Select a valid choice"),
        (form("x" * (8 * 1024 * 1024 + 1)), "tenfour session import"),
        (
            {"project": "default", "agent": "coder", "tracker": "todo"},
            "Choose the transcript file.",
        ),
    ):
        assert said in html(browser.post("/sessions/import/", sent), 422), said
    assert not Session.objects.exists()
