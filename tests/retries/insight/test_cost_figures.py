"""What attempts used, as their reports say: by plan, by agent and over time, counted by hand."""

from datetime import timedelta
from typing import Any

import pytest

from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt, Failure, Task
from ledger.tasks.spec import Backoff
from ledger.tokens import TrustedCaller
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.insight.figures import costs as cost_figures
from retries.insight.figures import stored
from retries.insight.figures.costs import compute_cost
from retries.insight.figures.days import compute_days
from retries.models import InsightFigure
from tests.factories import NOW, make_agent, make_project
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.renderings.stories import make_plan

pytestmark = pytest.mark.django_db
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def usage(tokens: int, cost: float | None = None, model: str = "") -> dict[str, Any]:
    named = ({"cost_usd": cost} if cost else {}) | ({"model": model} if model else {})
    return {"input_tokens": tokens - 1, "output_tokens": 1} | named


def work(agent: Agent, first: Any, second: Any, *, at: Any) -> Task:
    """A task whose first attempt fails and whose second one succeeds, with what each used."""
    id = make_task(agent, max_attempts=2, backoff=Backoff(base_delay_ms=0), now=at)
    fail(agent, attempt_of(claim(agent, now=at)), usage=first, now=at + MINUTE)
    live = attempt_of(claim(agent, now=at + 2 * MINUTE))
    caller = TrustedCaller(SYSTEM, agent=agent)
    finishing.finish_attempt(live, Report(usage=second), caller=caller, now=at + 3 * MINUTE)
    return Task.objects.get(pk=id)


def test_usage_is_added_up_by_plan_and_agent_and_over_time(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_figures, "LEAST_TASKS", 1)
    local = make_agent("local")
    now = NOW + 2 * HOUR
    planned = work(agent, usage(100, 0.5), usage(300, 1.5), at=NOW)
    Task.objects.filter(pk=planned.pk).update(plan=make_plan(agent), ref="03-01:task-1", run=1)
    work(local, None, usage(40), at=NOW + HOUR)
    work(local, None, None, at=NOW + HOUR)
    work(agent, usage(1_000, 8.0), None, at=NOW - timedelta(days=10))
    work(make_agent("stranger", project=make_project("else")), None, usage(7, 7.0), at=NOW)
    compute_cost(agent.project, now=now)
    figures = {row.days: row.data for row in InsightFigure.objects.filter(panel="cost")}
    assert set(figures) == {1, 7, 30}
    whole = {"tokens": 440, "cost": 2.0, "cost_failed": 0.5, "tokens_failed": 100}
    assert figures[1]["all"] == figures[7]["all"] == whole | {"n": 2, "done": 2}
    reports = {"agents": 2, "reporting": 2, "done": 3, "missing": 1, "silent": []}
    assert figures[1]["reports"] == figures[7]["reports"] == reports
    assert figures[30]["reports"] == reports | {"done": 4, "missing": 2}
    both = figures[30]["all"]
    assert (both["tokens"], both["cost"], both["cost_failed"]) == (1_440, 10.0, 8.5)
    assert (both["n"], both["done"]) == (3, 2)  # the third one's success named no usage
    first, second = figures[1]["agent"]["rows"]
    assert (first["name"], first["cost"], first["n"]) == ("coder", 2.0, 1)
    assert (second["name"], second["cost"], second["tokens"]) == ("local", None, 40)
    # slots of two hours: the last one began at NOW, and where no cost is known tokens are shown
    assert first["slots"] == [0] * 11 + [2.0] and second["slots"] == [0] * 11 + [40]
    named, without = figures[1]["plan"]["rows"]
    assert (named["name"][:5], named["cost"]) == ("03-01", 2.0)
    assert (without["id"], without["name"], without["tokens"]) == ("", "", 40)
    days = figures[30]["agent"]["rows"][0]["slots"]  # of two days each
    assert days == [0] * 9 + [8.0] + [0] * 4 + [2.0]


def test_agents_that_report_no_usage_are_named(agent: Agent) -> None:
    work(agent, None, usage(10, 1.0), at=NOW)
    for name in "edcba":
        silent = make_agent(name)
        make_task(silent, now=NOW)
        live = attempt_of(claim(silent, now=NOW))
        caller = TrustedCaller(SYSTEM, agent=silent)
        finishing.finish_attempt(live, Report(), caller=caller, now=NOW + MINUTE)
    work(make_agent("stranger", project=make_project("else")), None, None, at=NOW)
    compute_cost(agent.project, now=NOW + HOUR)
    data = InsightFigure.objects.get(panel="cost", days=1).data
    assert data["reports"] == {
        "agents": 6, "reporting": 1, "done": 6, "missing": 5, "silent": ["a", "b", "c"]
    }  # fmt: skip


def test_the_groups_add_up_to_the_whole(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPR-16: by plan, agent, and model, with the sum of those that are not shown."""
    monkeypatch.setattr(stored, "MOST_GROUPS", 2)
    monkeypatch.setattr(cost_figures, "MOST_GROUPS", 2)
    for number, cost in enumerate((4.0, 3.0, 2.0, 1.0)):
        model = f"model-{number}" if number else ""
        work(make_agent(f"a{number}"), usage(5), usage(10, cost, model), at=NOW)
    compute_cost(agent.project, now=NOW + HOUR)
    data = InsightFigure.objects.get(panel="cost", days=1).data
    assert [row["cost"] for row in data["agent"]["rows"]] == [4.0, 3.0]
    rest = {"tokens": 30, "cost": 3.0, "cost_failed": 0, "tokens_failed": 10, "n": 2, "done": 2}
    assert data["agent"]["rest"] == rest and data["agent"]["more"] == 2
    models = data["model"]
    assert [(row["name"], row["tokens"]) for row in models["rows"]] == [("", 30), ("model-1", 10)]
    for kind in ("plan", "agent", "model"):
        both = [*data[kind]["rows"], data[kind]["rest"]]
        assert sum(row["tokens"] for row in both) == data["all"]["tokens"] == 60
        assert sum(row["cost"] or 0 for row in both) == data["all"]["cost"] == 10.0


def test_days_are_added_once_and_outlive_their_tasks(agent: Agent) -> None:
    work(agent, usage(10, 1.0), usage(20, 2.0), at=NOW - timedelta(days=3))
    work(agent, None, usage(5), at=NOW)
    work(make_agent("else", project=make_project("else")), None, usage(7, 7.0), at=NOW)
    compute_days(agent.project, now=NOW + HOUR)
    old, today = (f"{NOW - timedelta(days=age):%Y-%m-%d}" for age in (3, 0))
    first = {"attempts": 2, "done": 1, "first": 0, "proven": 0, "tokens": 30, "cost": 3.0}
    days = InsightFigure.objects.get(panel="days").data["days"]
    assert days == {old: first, today: first | {"tokens": 5, "cost": None}}
    Failure.objects.all().delete()
    Attempt.objects.filter(ended_at__lt=NOW - timedelta(days=1)).delete()
    work(agent, None, usage(6, 4.0), at=NOW + HOUR)
    compute_days(agent.project, now=NOW + 2 * HOUR)
    days = InsightFigure.objects.get(panel="days").data["days"]
    assert days[old] == first
    assert (days[today]["done"], days[today]["tokens"], days[today]["cost"]) == (2, 11, 4.0)
    work(agent, None, usage(1), at=NOW + timedelta(days=2))
    compute_days(agent.project, now=NOW + timedelta(days=9))  # after a week without a clock
    days = InsightFigure.objects.get(panel="days").data["days"]
    assert len(days) == 3 and days[today]["done"] == 2
    compute_days(agent.project, now=NOW + timedelta(days=399))
    assert old not in InsightFigure.objects.get(panel="days").data["days"]
