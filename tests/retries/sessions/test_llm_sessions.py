"""A session with the tracker `llm`, its model on a real port: tasks, or a failed batch."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings as django_settings

from ledger.models import Message, SessionBatch, SessionTask
from retries.sessions.flushing import flush_session_message_blocking
from retries.trackers import chat_model
from tests.client.model_server import ModelServer, Raw
from tests.conftest import Api
from tests.retries.trackers.test_llm import FINISH, INSERT, KEY, LINK, called, error

pytestmark = pytest.mark.django_db


@pytest.fixture
def model(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        settings.LLM_KEY = KEY
        monkeypatch.setattr(chat_model, "MAX_RETRIES", 0)
        settings.TENFOUR = django_settings.TENFOUR | {
            "LLM_URL": server.url,
            "LLM_MODEL": "tiny",
            "LLM_TIMEOUT_SECONDS": 20,
        }
        yield server


def talk(coder: Api) -> str:
    """Store three messages in a new session and process them."""
    id: str = coder("POST", "/sessions", {"tracker": "llm"}).body["id"]
    said = [
        {"role": "user", "content": "Write a parser"},
        {"role": "assistant", "content": "On it."},
        {"role": "assistant", "content": "1 test failed."},
    ]
    assert coder("POST", f"/sessions/{id}/messages", said).status_code == 201
    flush_session_message_blocking(UUID(id))
    return id


def test_a_model_finds_tasks(coder: Api, model: ModelServer) -> None:
    progress = ("append_task_progress", {"task_order": 1, "progress": "1 test failed."})
    model.replies.extend([called(INSERT, LINK), called(progress, FINISH)])
    id = talk(coder)
    task = SessionTask.objects.get(session=id)
    assert (task.description, task.state, task.progress) == (
        "Write a parser",
        "running",
        ["1 test failed."],
    )
    assert Message.objects.filter(session_task=task, state="success").count() == 3
    batch = SessionBatch.objects.get(session=id)
    assert (batch.outcome, batch.responses, batch.calls) == ("success", 2, 4)


@pytest.mark.parametrize(
    ("replies", "reason", "tasks"),
    [
        ([called(text="turtles")], "None of the model's 6 responses could be used.", 0),
        ([error(401, f"bad key {KEY}")], "answered 401: ", 0),
        ([called(INSERT, ("drop_table", {}))], "there is no such tool", 0),
        # What an earlier response did stays.
        ([called(INSERT, LINK), error(500)], "answered 500: ", 1),
        ([called(INSERT), Raw(None)], "did not answer: ", 1),
    ],
)
def test_a_failing_model_fails_the_batch_with_its_reason(
    coder: Api, model: ModelServer, replies: list[Raw], reason: str, tasks: int
) -> None:
    model.replies.extend(replies)
    id = talk(coder)
    batch = SessionBatch.objects.get(session=id)
    assert batch.outcome == "failed"
    assert reason in batch.reason
    assert KEY not in batch.reason
    assert SessionTask.objects.filter(session=id).count() == tasks
    assert set(Message.objects.values_list("state", flat=True)) == {"failed"}
    assert coder("GET", f"/sessions/{id}/status").body["failed"] == 3


def test_without_a_model_the_batch_says_what_to_set(coder: Api, model: ModelServer) -> None:
    django_settings.TENFOUR["LLM_URL"] = ""
    id = talk(coder)
    assert "set TENFOUR_LLM_URL" in SessionBatch.objects.get(session=id).reason
