"""Tasks are enqueued with their payloads as JSON, without secrets."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from ledger import tasks
from ledger.models import Agent, Task
from ledger.states import TaskState
from tests.factories import NOW
from tests.ledger.test_redaction import WHOLE
from tests.retries.moves import kinds

pytestmark = pytest.mark.django_db
S = TaskState


def test_enqueue_task(agent: Agent) -> None:
    """S3.4, S3.8"""
    id = tasks.enqueue(agent, "code", {"a": [1, "ä"]}, now=NOW)
    task = Task.objects.get(pk=id)
    assert (task.state, task.priority, task.retry_count, task.max_attempts) == (S.QUEUED, 0, 0, 3)
    assert task.payload == {"a": [1, "ä"]} and len(str(id)) == 36
    assert kinds(id) == ["task.created"]


@dataclass
class Login:
    user: str
    password: str


ODD: list[tuple[Any, Any]] = [
    ({"at": NOW}, {"at": "2026-11-21T12:00:00Z"}),
    ({"id": UUID(int=1)}, {"id": str(UUID(int=1))}),
    ({"each": (n for n in "ab")}, {"each": ["a", "b"]}),
    ({"keys": {WHOLE["github"][0]}}, {"keys": ["[redacted:github]"]}),
    (
        {"login": Login("mara", "hunter2")},
        {"login": {"user": "mara", "password": "[redacted:secret]"}},
    ),
    ({"text": "a\ud800b"}, {"text": "ab"}),
]


@pytest.mark.parametrize(("made", "kept"), ODD)
def test_a_payload_is_stored_as_json(agent: Agent, made: Any, kept: Any) -> None:
    """Secrets are found in any type of value."""
    task = Task.objects.get(pk=tasks.enqueue(agent, "code", made))
    assert task.payload == kept


def test_a_payload_that_json_cannot_hold_is_refused(agent: Agent) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        tasks.enqueue(agent, "code", {"it": object()})
    assert not Task.objects.exists()
