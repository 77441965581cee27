"""How tasks ended, by group: on a small real history, and the arithmetic by hand."""

from datetime import timedelta

import pytest

from ledger.models import Agent
from retries import sweeps
from retries.insight import outcome_figures
from retries.insight.outcome_figures import choose_rules
from retries.insight.outcomes import Ending, count_endings
from retries.models import FailurePattern, InsightFigure
from tests.dashboard.worked import make_task
from tests.factories import NOW

DAY = timedelta(days=1)


def test_tasks_are_counted_by_attempts_and_weeks() -> None:
    agent = (("agent", "a"),)
    both = (("agent", "a"), ("pattern", "p"))
    endings = [Ending(agent, NOW - DAY, 1)] * 60
    endings += [Ending(both, NOW - 8 * DAY, 2)] * 30
    endings += [Ending(both, NOW - 8 * DAY, 3)] * 4
    endings += [Ending(both, NOW - 200 * DAY, None)] * 5
    endings += [Ending(both, NOW, 7)]  # after more attempts than are shown
    groups = count_endings(endings, now=NOW)
    assert groups["agent", "a"].tasks == 100
    assert groups["agent", "a"].shares == [60, 90, 94, 94]
    assert groups["agent", "a"].most_useful == 2
    assert groups["agent", "a"].done_by_week == [None] * 11 + [100, 98]
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
    sweeps.run("insight", now=NOW + DAY)
    data = InsightFigure.objects.get(panel="outcomes").data
    (row,) = data["agent"]["rows"]
    assert (row["id"], row["name"], row["n"]) == (str(agent.pk), "coder", 4)
    assert row["shares"] == [50, 50, 50, 50]
    assert row["weeks"] == [None] * 12 + [50]
    (pattern,) = data["pattern"]["rows"]
    assert pattern["name"] == FailurePattern.objects.get().template
    assert (pattern["n"], pattern["shares"]) == (2, [0, 0, 0, 0])
    assert data["plan"] == {"hidden": 0, "more": 0, "rows": []}
    assert InsightFigure.objects.get(panel="rules").data["rows"] == []
