"""How tasks ended, by group: on a small real history, and the arithmetic by hand."""

from datetime import timedelta

import pytest

from ledger.models import Agent
from retries import sweeps
from retries.insight.figures import outcomes as outcome_figures
from retries.insight.figures.outcomes import choose_rules
from retries.insight.outcomes import Ending, count_endings
from retries.models import FailurePattern, InsightFigure
from tests.dashboard.worked import make_task
from tests.factories import NOW

DAY = timedelta(days=1)


def test_tasks_are_counted_by_attempts_and_over_time() -> None:
    agent = (("agent", "a"),)
    both = (("agent", "a"), ("pattern", "p"))
    endings = [Ending(agent, NOW - DAY, 1)] * 60
    endings += [Ending(both, NOW - 8 * DAY, 2)] * 30
    endings += [Ending(both, NOW - 8 * DAY, 3)] * 4
    endings += [Ending(both, NOW - 29 * DAY, None)] * 5
    endings += [Ending(both, NOW, 7)]  # after more attempts than are shown
    groups = count_endings(endings, since=NOW - 30 * DAY, now=NOW, slots=15)
    assert groups["agent", "a"].tasks == 100
    assert groups["agent", "a"].shares == [60, 90, 94, 94]
    assert groups["agent", "a"].most_useful == 2
    assert groups["agent", "a"].done_by_slot == [0, *[None] * 10, 100, None, None, 98]
    assert groups["pattern", "p"].done_by_slot == [0, *[None] * 10, 100, None, None, 0]
    assert (groups["pattern", "p"].shares, groups["pattern", "p"].most_useful) == (
        [0, 75, 85, 85],
        3,
    )


def test_rules_come_with_the_least_followed_first() -> None:
    rows = [
        {"key": "a", "name": "A", "n": 50, "followed": 49, "at_once": 10},
        {"key": "b", "name": "B", "n": 80, "followed": 20, "at_once": 20},
        {"key": "c", "name": "C", "n": 49, "followed": 0, "at_once": 0},
    ]
    found = choose_rules(rows)
    assert [(each["id"], each["followed"], each["at_once"]) for each in found["rows"]] == [
        ("b", 25, 25),
        ("a", 98, 20),
    ]
    assert (found["hidden"], found["more"]) == (1, 0)


@pytest.mark.django_db
def test_a_real_history_is_counted(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_figures, "LEAST_TASKS", 2)
    for state in ("done", "done", "failed", "escalated", "skipped", "queued"):
        make_task(state, agent=agent, now=NOW)
    sweeps.run("insight", now=NOW + 2 * DAY)
    figures = {row.days: row.data for row in InsightFigure.objects.filter(panel="outcomes")}
    assert set(figures) == {1, 7, 30}
    assert figures[1]["agent"]["rows"] == []
    data = figures[30]
    assert figures[7]["agent"]["rows"][0]["slots"] == [None] * 10 + [50, None, None, None]
    (row,) = data["agent"]["rows"]
    assert (row["id"], row["name"], row["n"]) == (str(agent.pk), "coder", 4)
    assert row["shares"] == [50, 50, 50, 50]
    assert row["slots"] == [None] * 14 + [50]
    (pattern,) = data["pattern"]["rows"]
    assert pattern["name"] == FailurePattern.objects.get().template
    assert (pattern["n"], pattern["shares"]) == (2, [0, 0, 0, 0])
    assert data["plan"] == {"hidden": 0, "more": 0, "rows": []}
    assert not any(row.data["rows"] for row in InsightFigure.objects.filter(panel="rules"))
