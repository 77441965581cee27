"""A check that gives two results on the same files is called flaky."""

from typing import Any

import pytest

from ledger.models import Agent
from retries.retry_context.flaky import find_flaky_checks
from tests.conftest import Api
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db
TREE = {"commit": "9c1f44a", "diff": None}
CHECK = {"command": "make test", "cwd": "/src", "exit_code": 1, "tree": TREE}
PASSED = CHECK | {"exit_code": 0}
SAID = "The same files gave another result before: `make test` ended with "


def report(coder: Api, claimed: dict[str, Any], *checks: dict[str, Any]) -> str:
    """Report the result of the last check, and return the attempt's id."""
    id: str = claimed["attempt"]["id"]
    code = checks[-1]["exit_code"]
    body = {
        "status": "success",
        "verification": {"command": "make test", "exit_code": code, "output": "1 failed" * code},
        "checks": checks,
    }
    assert coder("POST", f"/attempts/{id}/result", body).status_code == 200
    return id


def start(coder: Api, operator: Api, **body: Any) -> dict[str, Any]:
    """Claim a new task whose first attempt has failed, where other files passed the check."""
    verify = {"verify": {"command": "make test"}}
    id = enqueue(operator, payload=verify, backoff={"base_delay_ms": 0}, **body)
    report(coder, claim(coder, task=id)["data"][0], CHECK | {"tree": TREE | {"commit": "1" * 7}})
    found: dict[str, Any] = claim(coder, task=id)["data"][0]
    return found


def test_a_check_that_passed_on_the_same_files_is_flaky(
    agent: Agent, coder: Api, operator: Api
) -> None:
    second = start(coder, operator)
    id = second["task"]["id"]
    other = CHECK | {"tree": TREE | {"commit": "1" * 7}, "exit_code": 2}
    assert "flaky" not in second["retry_context"]
    report(coder, second, PASSED | {"seen_by": "agent"}, CHECK, PASSED, other)
    third = claim(coder, task=id)["data"][0]
    said = f"{SAID}1 in attempt 2, and with 0 in attempt 2. The check is flaky."
    assert said in third["retry_context"]


@pytest.mark.parametrize(
    "other",
    [
        {"command": "make lint"},
        {"cwd": "/other"},
        {"exit_code": 1},
        {"tree": TREE | {"diff": "a" * 64}},
        {"tree": None},
        {"seen_by": "agent"},
    ],
)
def test_other_files_folders_and_commands_are_no_other_result(
    agent: Agent, coder: Api, operator: Api, other: dict[str, Any]
) -> None:
    first = report(coder, start(coder, operator), PASSED | other, CHECK)
    assert find_flaky_checks([first]) == {}
