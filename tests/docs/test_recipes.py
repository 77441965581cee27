"""The recipes of `docs/standing-instructions.md`, each with what triggers it and what settles it."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.models import Agent, Instruction, StandingInstruction
from ledger.standing_instructions.clock import send_due
from tests.conftest import Api
from tests.docs.pages import ROOT

pytestmark = pytest.mark.django_db

PAGE = (ROOT / "docs" / "standing-instructions.md").read_text().partition("## Recipes")[2]
RECIPES: dict[str, Any] = {
    name: json.loads(body)
    for name, body in re.findall(r"^### (.+?)\n\n```json\n(.+?)^```", PAGE, re.M | re.S)
}


def signal(type: str, **data: str) -> Callable[[Api], Any]:
    return lambda coder: coder("POST", "/signals", {"type": type, "data": data, "session": "one"})


def claim_fix(coder: Api) -> Any:
    coder("POST", "/tasks", {"title": "Fix it", "type": "fix"})
    return coder("POST", "/claims")


def tick(coder: Api) -> Any:
    coder("GET", "/me")  # the agent is alive
    StandingInstruction.objects.update(activated_at=datetime(2020, 1, 1, tzinfo=UTC))
    return send_due(now=datetime.now(UTC))


def acknowledge(coder: Api) -> Any:
    [row] = coder("POST", "/instructions/pull").body["data"]
    return coder("POST", f"/instructions/{row['id']}/ack")


STORIES: dict[str, tuple[Callable[[Api], Any], Callable[[Api], Any], Callable[[Api], Any]]] = {
    "Tests after changes": (
        signal("fs_write", path="README.md"),
        signal("fs_write", path="src/a.py", tool="Edit"),
        signal("fs_command", command="make", line="make test"),
    ),
    "Changelog after a fix": (
        signal("fs_write", path="src/a.py"),
        claim_fix,
        signal("fs_write", path="/srv/app/CHANGELOG.md", cwd="/srv/app"),
    ),
    "Checklist before stopping": (
        signal("fs_write", path="src/a.py"),
        signal("session_start", source="startup"),
        signal("checklist_done"),
    ),
    "Docs with the API": (
        signal("fs_write", path="docs/other.json"),
        signal("fs_write", path="api/openapi.json"),
        signal("fs_write", path="docs/api.md"),
    ),
    "Say where you are": (signal("fs_write", path="src/a.py"), tick, acknowledge),
}


def test_there_are_five_recipes() -> None:
    assert list(RECIPES) == list(STORIES)


@pytest.mark.parametrize("name", STORIES)
def test_a_recipe_works(name: str, operator: Api, coder: Api, agent: Agent) -> None:
    recipe = RECIPES[name]
    assert operator("POST", "/standing-instructions", recipe).status_code == 201
    other, trigger, settle = STORIES[name]
    other(coder)
    assert not Instruction.objects.exists()
    trigger(coder)
    row = Instruction.objects.get()
    assert row.content == recipe["content"]
    holds = bool(recipe.get("hold_stop"))
    assert coder("POST", "/standing-instructions/hold").body["hold"] is holds
    settle(coder)
    row.refresh_from_db()
    assert row.state == "acknowledged"
    assert coder("POST", "/standing-instructions/hold").body["hold"] is False
