"""Every path in docs/names.md can be imported, and a coroutine can await what it says it can."""

import inspect
import pkgutil
import re

import pytest
from django.conf import settings

from ledger.models import Agent
from retries import async_verbs
from tests.factories import make_agent
from tests.loops import run_coroutine

TEXT = (settings.BASE_DIR / "docs" / "names.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| `([\w.]+)`(?:, .*)? \| (.*?) ?\|$", TEXT, re.M)
# the names whose things are called something else
OTHERS = {
    "get_failed_instructions": "failed_instructions",
    "RetryTask": "retry_unacknowledged",
    "TrackedInstruction": "Instruction",
    "TaskManager": "instructions",
    "TaskLedger": "tasks",
    "get_task": "fetch_task",
    "get_tasks_by_state": "filter",
    "get_dead_letter_queue": "open",
    "waiting_for_message_notify": "send_job",
    "CoreConfig": "TENFOUR",
}


@pytest.mark.parametrize(("name", "path"), [row[:2] for row in ROWS])
def test_a_name_is_where_it_is_said_to_be(name: str, path: str) -> None:
    assert path.rpartition(".")[2] == OTHERS.get(name, name)
    assert pkgutil.resolve_name(path)


@pytest.mark.parametrize("path", [row[2].strip("`") for row in ROWS if "." in row[2]])
def test_a_verb_for_coroutines_is_one(path: str) -> None:
    """SED-5"""
    assert inspect.iscoroutinefunction(pkgutil.resolve_name(path))


def test_every_verb_for_coroutines_is_listed() -> None:
    listed = {row[2].strip("`") for row in ROWS}
    made = {
        name for name in vars(async_verbs) if hasattr(getattr(async_verbs, name), "__wrapped__")
    }
    assert {f"retries.async_verbs.{name}" for name in made} <= listed and len(made) == 17


def test_no_row_is_passed_over() -> None:
    assert len(ROWS) == TEXT.count("\n| `") > 40


@pytest.mark.django_db(transaction=True)
def test_a_task_goes_its_way_in_a_coroutine() -> None:
    """SED-5, S3.39: as an orchestrator awaits it."""
    agent: Agent = make_agent("coder")

    async def story() -> list[str]:
        id = await async_verbs.aenqueue(agent, "code", {"n": 1})
        states = [(await async_verbs.afetch_task(id))["state"]]
        await async_verbs.amark_running(id)
        reply = await async_verbs.amark_done(id, {"ok": True})
        return [*states, reply.decision["decision"]]

    assert run_coroutine(story()) == ["queued", "done"]
