"""What attempts used, as their reports say: by plan, by agent and over time, counted by hand."""

from datetime import timedelta
from typing import Any

import pytest

from ledger.journal import SYSTEM
from ledger.models import Agent, Task
from ledger.tasks.spec import Backoff
from ledger.tokens import TrustedCaller
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.insight.figures import costs as cost_figures
from retries.insight.figures.costs import compute_cost
from retries.models import InsightFigure
from tests.factories import NOW, make_agent, make_project
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.renderings.stories import make_plan

pytestmark = pytest.mark.django_db
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def usage(tokens: int, cost: float | None = None) -> dict[str, Any]:
    return {"input_tokens": tokens - 1, "output_tokens": 1} | ({"cost_usd": cost} if cost else {})


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


def test_a_group_of_few_tasks_is_hidden(agent: Agent) -> None:
    for minute in range(4):
        work(agent, None, usage(10, 1.0), at=NOW + 5 * minute * MINUTE)
    compute_cost(agent.project, now=NOW + HOUR)
    data = InsightFigure.objects.get(panel="cost", days=1).data
    assert data["agent"] == {"rows": [], "hidden": 1, "more": 0}
    assert data["all"]["n"] == 4
    work(agent, None, usage(10, 1.0), at=NOW + 30 * MINUTE)
    compute_cost(agent.project, now=NOW + HOUR)
    data = InsightFigure.objects.get(panel="cost", days=1).data
    assert [row["n"] for row in data["agent"]["rows"]] == [5]
