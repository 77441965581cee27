"""Experiments on the retry context over HTTP."""

from collections.abc import Callable

import pytest

from ledger.journal import SYSTEM, Stamp
from ledger.models import Event
from retries.insight.experiments import list_needed, start_experiment
from retries.models import ContextExperiment
from tests.conftest import Api
from tests.factories import NOW, make_project
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db
WANTED = {"element": "known", "share": 20, "reason": "do they help?"}


def test_an_operator_reads_the_tasks_needed_and_starts_and_ends_one(operator: Api) -> None:
    needed = operator("GET", "/experiments/needed?share=20").body
    assert needed == {
        "share": 20,
        "needed": [{"points": points, "tasks": tasks} for points, tasks in list_needed(20).items()],
    }
    problem(operator("GET", "/experiments/needed?share=51"), 422, "validation_error")
    started = operator("POST", "/experiments", WANTED)
    assert (started.status_code, started.body["share"], started.body["difference"]) == (
        201,
        20,
        None,
    )
    problem(operator("POST", "/experiments", WANTED), 409, "invalid_transition")
    one = ContextExperiment.objects.get()
    counts = {"with_attempts": 486, "with_successes": 355}
    counts |= {"without_attempts": 54, "without_successes": 22}
    ContextExperiment.objects.filter(pk=one.pk).update(**counts)
    ended = operator("POST", f"/experiments/{one.pk}/end", {"reason": "enough"}).body
    expected = {"points": -32.3, "low": -44.9, "high": -18.4, "is_conclusive": True}
    assert ended["difference"] == expected and ended["end_reason"] == "enough"
    assert operator("GET", "/experiments").body["data"] == [ended]
    problem(
        operator("POST", f"/experiments/{one.pk}/end", {"reason": "so"}), 409, "invalid_transition"
    )
    event = Event.objects.get(kind="project.experiment_started")
    assert (event.data["share"], event.data["element"]) == (20, "known")


@pytest.mark.parametrize(
    "wrong", [{"share": 0}, {"share": 51}, {"share": "20"}, {"element": "all"}, {"reason": " "}]
)
def test_what_no_experiment_can_be_is_refused(operator: Api, wrong: dict[str, object]) -> None:
    problem(operator("POST", "/experiments", WANTED | wrong), 422, "validation_error")
    assert not ContextExperiment.objects.exists()


def test_only_people_of_the_project_end_an_experiment(
    api: Callable[..., Api], operator: Api
) -> None:
    problem(api("orchestrator")("POST", "/experiments", WANTED), 403, "human_required")
    stamp = Stamp(SYSTEM, NOW)
    one = start_experiment(make_project("another"), "known", reason="so", stamp=stamp)
    problem(operator("POST", f"/experiments/{one.pk}/end", {"reason": "x"}), 404, "not_found")
    assert operator("GET", "/experiments").body["data"] == []
