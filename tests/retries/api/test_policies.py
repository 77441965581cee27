"""A project's policies over HTTP."""

from collections.abc import Callable

import pytest

from ledger.models import Event
from retries.models import RetryPolicy
from tests.conftest import Api
from tests.factories import make_project
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db
DEFAULTS = {
    "ask_at_once": "plans",
    "obey_waits": "all",
    "ask_on_same_failure": "off",
    "evidence": None,
    "exclusive_files": "off",
    "reason_verbs": [],
    "search_keys": [],
    "search_filled_to": None,
    "version": 1,
}


def test_an_operator_reads_and_switches_policies(operator: Api, coder: Api) -> None:
    first = operator("GET", "/policies")
    assert (first.body, first["ETag"], RetryPolicy.objects.count()) == (DEFAULTS, '"v1"', 0)
    change = {"ask_on_same_failure": "plans", "obey_waits": "all", "reason": " tired of it "}
    problem(operator("PATCH", "/policies", change), 428, "if_match_required")
    found = operator("PATCH", "/policies", change, If_Match=first["ETag"])
    assert found.body == DEFAULTS | {"ask_on_same_failure": "plans", "version": 2}
    assert found["ETag"] == '"v2"' == operator("GET", "/policies")["ETag"]
    stale = problem(
        operator("PATCH", "/policies", {"ask_at_once": "off"}, If_Match='"v1"'),
        412,
        "version_mismatch",
    )
    assert stale["current"] == 2
    problem(
        operator("PATCH", "/policies", {"ask_at_once": "maybe"}, If_Match='"v2"'),
        422,
        "validation_error",
    )
    # what changes nothing is no version and no event
    same = operator("PATCH", "/policies", {"ask_on_same_failure": "plans"}, If_Match='"v2"')
    assert same.body["version"] == 2
    event = Event.objects.get(kind="project.policies_changed")
    assert event.data == {"ask_on_same_failure": "plans", "reason": "tired of it"}


def test_agents_and_orchestrators_switch_nothing(
    coder: Api, operator: Api, api: Callable[..., Api]
) -> None:
    problem(coder("GET", "/policies"), 403, "scope_missing")
    for kind, status in (("orchestrator", 200), ("reader", 200)):
        caller = api(kind)
        assert caller("GET", "/policies").status_code == status
        problem(
            caller("PATCH", "/policies", {"obey_waits": "off"}, If_Match='"v1"'),
            403,
            "human_required",
        )
    assert not RetryPolicy.objects.exists()


def test_another_project_has_its_own(operator: Api, api: Callable[..., Api]) -> None:
    operator("PATCH", "/policies", {"obey_waits": "off"}, If_Match='"v1"')
    other = api("operator", project=make_project("other"))
    assert other("GET", "/policies").body == DEFAULTS
