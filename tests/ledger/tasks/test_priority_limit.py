"""An agent's own token can't put its tasks before those of producers (SEC-13)."""

from typing import Any

import pytest

from ledger.models import Task, Token
from tests.conftest import Api

BODY = {"type": "code"}


@pytest.mark.django_db
@pytest.mark.parametrize("priority", [1, 20, 32_767])
def test_an_agents_token_sets_no_higher_priority_than_the_usual_one(
    coder: Api, operator: Api, priority: int
) -> None:
    """However it creates a task; a bulk call needs more scopes than it is given."""
    Token.objects.filter(kind="agent").update(scopes=[*Token.objects.first().scopes, "tasks:write"])
    high: dict[str, Any] = BODY | {"priority": priority}
    calls = [
        ("/tasks", high, "/priority"),
        ("/tasks?claim=true", high, "/priority"),
        ("/tasks/bulk", {"tasks": [BODY, high]}, "/tasks/1/priority"),
    ]
    for path, body, pointer in calls:
        refused = coder("POST", path, body)
        assert (refused.status_code, refused.body["code"]) == (422, "validation_error"), path
        assert refused.body["errors"] == [
            {"pointer": pointer, "detail": "An agent's token can set priority to at most 0."}
        ]
    assert not Task.objects.exists()
    for usual in (0, -5):
        assert coder("POST", "/tasks", BODY | {"priority": usual}).status_code == 201
    assert operator("POST", "/tasks", high | {"agent": "coder"}).status_code == 201


@pytest.mark.django_db
def test_an_agents_token_changes_no_priority_and_sends_no_instruction(coder: Api) -> None:
    task = coder("POST", "/tasks", BODY).body["id"]
    changed = coder("PATCH", f"/tasks/{task}", {"priority": 5}, If_Match='"v1"')
    sent = coder("POST", "/instructions", {"agent": "coder", "content": "x", "priority": True})
    assert [each.body["code"] for each in (changed, sent)] == ["scope_missing"] * 2
