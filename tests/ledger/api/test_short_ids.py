"""Lists find rows by an id, by its beginning, and by its last 8 digits, which pages print."""

import pytest

from ledger.api import parameters
from ledger.models import Agent
from ledger.states import InstructionState
from tests.conftest import Api
from tests.factories import make_agent, make_instruction, make_project
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db

LISTS = [
    "agents",
    "dead-letters",
    "escalations",
    "events",
    "instructions",
    "patterns",
    "plans",
    "standing-instructions",
    "tasks",
]


def list_ids(api: Api, text: str, noun: str = "instructions") -> list[str]:
    return [row["id"] for row in api("GET", f"/{noun}?id={text}").body["data"]]


def test_an_id_its_beginning_and_its_end_find_the_row(operator: Api, agent: Agent) -> None:
    rows = [make_instruction(InstructionState.QUEUED, agent=agent) for _ in range(3)]
    ids = sorted((str(row.id) for row in rows), reverse=True)
    for id in ids:
        for text in (id, id.upper(), id[-8:], id.replace("-", "")):
            assert list_ids(operator, text) == [id], text
        assert id in list_ids(operator, id[:13])
    assert list_ids(operator, ids[0][:4]) == ids
    assert list_ids(operator, "00000000") == []
    page = operator("GET", f"/instructions?id={ids[0][:4]}&limit=2").body
    more = f"/instructions?id={ids[0][:4]}&limit=2&cursor={page['next_cursor']}"
    assert [row["id"] for row in operator("GET", more).body["data"]] == ids[2:]


def test_only_the_newest_rows_are_searched_for_the_end_of_an_id(
    operator: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parameters, "SHORT_IDS_SEARCHED", 2)
    rows = [make_instruction(InstructionState.QUEUED, agent=agent) for _ in range(3)]
    ids = sorted(str(row.id) for row in rows)
    assert list_ids(operator, ids[0][-8:]) == []
    assert list_ids(operator, ids[1][-8:]) == [ids[1]]


def test_every_list_has_the_filter_and_refuses_what_is_no_id(operator: Api, agent: Agent) -> None:
    for noun in LISTS:
        assert list_ids(operator, "00000000", noun) == []
        for text in ("abc", "x" * 8, "0000%00", "-" * 8):
            wrong = problem(operator("GET", f"/{noun}?id={text}"), 422, "validation_error")
            assert wrong["errors"][0]["pointer"] == "/id", noun


def test_another_projects_rows_are_not_found(operator: Api) -> None:
    row = make_instruction(InstructionState.QUEUED, agent=make_agent(project=make_project("other")))
    for text in (str(row.id), str(row.id)[-8:], str(row.id)[:23]):
        assert list_ids(operator, text) == []
