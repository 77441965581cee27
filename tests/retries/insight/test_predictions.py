"""Predictions: the shrinkage by hand, the Brier score, and a real history."""

from itertools import cycle
from typing import Any

import pytest

from ledger.models import Agent, Attempt, Task
from retries import sweeps
from retries.insight.prediction_reads import find_attempt_predictions, find_task_predictions
from retries.insight.predictions import Case, Features, Rate, count_rates, measure_quality, predict
from retries.models import InsightFigure, OutcomeRate
from tests.factories import NOW
from tests.retries.api.calls import claim, enqueue

RATES = {
    (1, "all", ""): Rate(200, 120),
    (1, "kind", "code"): Rate(100, 80),
    (1, "agent", "a:code"): Rate(10, 0),
    (1, "pattern", "p"): Rate(20, 2),
    (1, "signature", "s"): Rate(19, 0),
}


def test_a_chance_is_shrunk_towards_the_level_above() -> None:
    kind = (80 + 20 * 0.6) / 120
    agent = 20 * kind / 30
    pattern = (2 + 20 * agent) / 40
    found = predict(RATES, Features(1, "code", "a", "p", "s"))
    assert (found.chance, found.tasks, found.level) == (pytest.approx(pattern), 20, "pattern")
    found = predict(RATES, Features(1, "code", "a"))
    assert (found.chance, found.tasks, found.level) == (pytest.approx(kind), 100, "kind")


def test_a_chance_of_few_tasks_is_hidden() -> None:
    found = predict(RATES, Features(1, "docs", "b", signature="s"))
    assert (found.chance, found.tasks) == (None, 19)
    assert predict({}, Features(0, "code", "a")).chance is None


def test_the_newest_fifth_is_scored() -> None:
    """Half of one kind is done and none of the other: 0.25 and nearly 0."""
    kinds, halves = cycle(["half", "never"]), cycle([True, False, False, False])
    cases = [Case(Features(0, next(kinds), "a"), next(halves)) for _ in range(1_000)]
    found = measure_quality(cases)
    assert found.cases == 200
    assert found.base == pytest.approx(0.25 * 0.75, abs=0.001)
    assert found.brier == pytest.approx(0.125, abs=0.002)
    assert [each.cases for each in found.bins] == [100, 100]
    assert [each.observed for each in found.bins] == [0, 0.5]
    # What it is scored by does not know the newest fifth.
    changed = cases[:800] + [Case(each.features, not each.is_done) for each in cases[800:]]
    worse = measure_quality(changed)
    assert worse.brier is not None and worse.brier > 0.5
    assert measure_quality(cases[:30]).brier is None
    assert count_rates(cases)[0, "kind", "half"] == Rate(500, 250)


def report(coder: Any, claimed: dict[str, Any], error: str) -> None:
    body: dict[str, Any] = {"status": "success"}
    if error:
        verification = {"command": "pytest", "exit_code": 1, "output": error}
        failure = {"type": "verification_failed", "message": "a test failed"}
        body = {"status": "failure", "failure": failure, "verification": verification}
    path = f"/attempts/{claimed['attempt']['id']}/result"
    assert coder("POST", path, body).status_code == 200


@pytest.mark.django_db
def test_a_real_history_predicts(agent: Agent, coder: Any, operator: Any) -> None:
    """Tasks of one pattern always need a person, those of another one never."""
    endings = {
        "ModuleNotFoundError: No module named 'polars'": 2,
        "ZeroDivisionError: division by zero": 1,
    }
    for _ in range(27):
        for error, failures in endings.items():
            id = enqueue(operator, max_attempts=2)
            for number in range(2):
                Task.objects.filter(pk=id, state="retry").update(due_at=NOW)
                claimed = claim(coder, task=id)["data"][0]
                report(coder, claimed, error if number < failures else "")
    waiting = []
    for error in endings:
        waiting.append(enqueue(operator, max_attempts=2))
        report(coder, claim(coder, task=waiting[-1])["data"][0], error)
    new, other = enqueue(operator), enqueue(operator, type="docs")
    assert sweeps.run("insight")["tasks"] == 54
    ids = list(Task.objects.values_list("id", flat=True))
    found = {str(id): each for id, each in find_task_predictions(ids).items()}
    bad, good = (found[id] for id in waiting)
    assert (bad.tasks, bad.level, good.level) == (27, "signature", "signature")
    assert bad.chance and good.chance and bad.chance < 0.2 < 0.8 < good.chance
    assert (found[new].level, found[new].tasks) == ("agent", 54)
    assert found[new].chance == pytest.approx(0.5)
    assert (found[other].chance, found[other].tasks) == (None, 0)
    figure = InsightFigure.objects.get(panel="predictions")
    assert figure.data["likely"][0]["task"] == waiting[0]
    assert (figure.data["shown"], figure.data["hidden"]) == (3, 1)
    assert figure.data["brier"] < figure.data["base"]
    attempts = Attempt.objects.filter(task_id__in=waiting)
    told = find_attempt_predictions([each.pk for each in attempts])
    assert sorted(each.chance or 0 for each in told.values()) == [bad.chance, good.chance]
    rows = operator("GET", f"/tasks/{waiting[0]}/attempts").body["data"]
    brier = figure.data["brier"]
    chance = {"chance": round(bad.chance, 4), "n": 27, "by": "signature", "brier_score": brier}
    assert rows[0]["prediction"] == rows[0]["failure"]["prediction"] == chance
    assert operator("GET", f"/attempts/{rows[0]['id']}").body["prediction"] == chance
    pattern = f"/patterns/{rows[0]['failure']['pattern']}"
    told = operator("GET", pattern).body["prediction"]
    assert (told["n"], told["by"]) == (27, "pattern") and told["chance"] < 0.5
    of_pattern = operator("GET", f"{pattern}/failures").body["data"]
    assert of_pattern[0]["prediction"] == chance
    sweeps.run("insight")  # again: the rows are replaced
    assert OutcomeRate.objects.filter(level="all").count() == 2
