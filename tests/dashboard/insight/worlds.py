"""Worlds for the Insight page: experiments at all stages, and predictions of tasks."""

from datetime import datetime, timedelta
from typing import Any

from ledger.journal import Stamp
from ledger.models import Agent, Plan
from ledger.states import TaskState
from retries.insight import experiments
from retries.models import ContextExperiment, InsightFigure
from tests.dashboard.worked import MARA, make_task

HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150


def make_experiment(
    agent: Agent, element: str, counts: tuple[int, int, int, int], *, now: datetime, ends: bool
) -> ContextExperiment:
    """An experiment with the counts of a computation: attempts and successes with, and without."""
    stamp = Stamp(MARA, now - timedelta(days=6))
    made = experiments.start_experiment(agent.project, element, reason=HOSTILE, stamp=stamp)
    names = ("with_attempts", "with_successes", "without_attempts", "without_successes")
    ContextExperiment.objects.filter(pk=made.pk).update(
        counted_at=now, **dict(zip(names, counts, strict=True))
    )
    if ends:
        experiments.end_experiment(made.pk, reason="enough", stamp=Stamp(MARA, now))
    return made


def make_policies(agent: Agent, *, now: datetime) -> None:
    """The figures of a policy that is off, one that is on, and one of too few tasks."""
    lost = make_task(TaskState.DONE, HOSTILE, agent=agent, now=now)
    figures = {"tasks": 4_411, "done": 1_902, "saved": 214, "saved_s": 111_600, "lost": 1}
    more = {
        "asked_more": 61,
        "asked": 0,
        "lost_tasks": [{"id": str(lost.pk), "ref": "", "title": HOSTILE}],
    }
    none = {"lost": 0, "lost_tasks": [], "saved": 0, "saved_s": 0, "asked": 39}
    one = figures | more | {"name": "ask_on_same_failure", "scope": "off"}
    policies = [
        one,
        one | none | {"name": "ask_at_once", "scope": "plans"},
        one | {"name": "obey_waits", "scope": "off", "tasks": 14},
    ]
    InsightFigure.objects.create(
        project=agent.project,
        panel="policies",
        days=90,
        computed_at=now,
        data={"least": 50, "days": 90, "policies": policies},
    )


def make_outcomes(agent: Agent, *, now: datetime) -> None:
    """The figures of agents, plans and patterns, and of rules, some with hostile names."""
    slots = [None, None, 40, 45, 50, 48, 60, 70, 65, 80, 82, 84, 90, 88, 91]
    row = {"n": 312, "shares": [55, 70, 80, 82], "most_useful": 3, "slots": slots}
    row["proven"] = 64
    groups: dict[str, Any] = {"least": 50}
    for kind in ("agent", "plan", "pattern"):
        rows = [row | {"id": str(agent.pk), "name": name} for name in (HOSTILE, "plain")]
        rows.append(row | {"id": str(agent.pk), "name": "new", "slots": [None] * 15})
        groups[kind] = {"rows": rows, "hidden": 36, "more": 2}
    rule = {"id": str(agent.pk), "name": HOSTILE, "n": 1_204, "followed": 61, "at_once": 40}
    rules = {"least": 50, "rows": [rule, rule | {"followed": 98}], "more": 0, "hidden": 3}
    for panel, data in (("outcomes", groups), ("rules", rules)):
        InsightFigure.objects.create(
            project=agent.project, panel=panel, days=30, computed_at=now, data=data
        )


def make_costs(agent: Agent, *, now: datetime) -> None:
    """The figures of a plan, of tasks without one, and of agents, one of which names no cost."""
    row = {"id": str(agent.pk), "name": HOSTILE, "n": 88, "done": 80, "tokens": 412_000_000}
    row |= {"cost": 1_318.4, "cost_failed": 448.3, "tokens_failed": 140_000_000}
    row["slots"] = [0, 10, 80, 120, 90, 0, 0, 100, 118, 200, 150, 170, 80, 100, 100]
    other = row | {"id": "", "name": "", "cost": 118.0, "cost_failed": 20.0}
    bare = row | {"cost": None, "cost_failed": 0, "tokens": 48_800, "tokens_failed": 9_000}
    data = {
        "least": 5,
        "all": {name: row[name] for name in row if name not in ("id", "name", "slots")},
        "plan": {"rows": [row, other], "hidden": 3, "more": 0},
        "agent": {"rows": [row, bare | {"name": "local", "done": 0}], "hidden": 0, "more": 2},
    }
    InsightFigure.objects.create(
        project=agent.project, panel="cost", days=30, computed_at=now, data=data
    )


def make_answers(agent: Agent, *, now: datetime) -> None:
    """The figures of two reasons with enough answers, and of one with too few."""
    case = {"n": 212, "phases": [660.0, 360.0, 60.0, 240.0], "within": 13_200.0}
    data = {
        "least": 20,
        "all": case | {"n": 535},
        "reasons": [
            case | {"reason": "max_retries_exceeded"},
            case | {"reason": "agent_question", "phases": [100.0, 0.0, 0.0, 2_000.0]},
            {"reason": "blocked", "n": 7},
        ],
    }
    InsightFigure.objects.create(
        project=agent.project, panel="answers", days=30, computed_at=now, data=data
    )


def make_targets(agent: Agent, *, now: datetime) -> None:
    """The figures of agents that meet their target, miss it, burn fast, and are hardly asked."""
    row = {"id": str(agent.pk), "percent": 95, "within_s": 120, "n": 604, "week_n": 100}
    rows = [
        row | {"name": "fine", "met": 590, "week_met": 98},
        row | {"name": HOSTILE[:64], "met": 532, "week_met": 84},
        row | {"name": "fast", "met": 580, "week_met": 88},
        row | {"name": "new", "n": 9, "met": 0, "week_n": 0, "week_met": 0},
    ]
    InsightFigure.objects.create(
        project=agent.project,
        panel="targets",
        days=30,
        computed_at=now,
        data={"least": 50, "rows": rows},
    )


def make_times(agent: Agent, plan: Plan, *, now: datetime) -> None:
    """The times of an agent, of types, one with few first claims, and of a plan."""
    times = {"wait_n": 212, "wait_p50_s": 4.2, "wait_p95_s": 40.0}
    times |= {"run_n": 230, "run_p50_s": 80.0, "run_p95_s": 600.0}
    row = {"n": 240} | times
    few = {"n": 24, "wait_n": 9, "wait_p50_s": None, "wait_p95_s": None}
    few |= {"run_n": 24, "run_p50_s": 30.0, "run_p95_s": 300.0}
    none = {"hidden": 0, "more": 0}
    data = {
        "least": 20,
        "agent": none | {"rows": [row | {"id": str(agent.pk), "name": agent.name}], "hidden": 2},
        "type": none
        | {"rows": [row | {"id": HOSTILE, "name": HOSTILE}, few | {"id": "code", "name": "code"}]},
        "plan": none | {"rows": [row | {"id": str(plan.pk), "name": "03-01 Ship"}]},
    }
    InsightFigure.objects.create(
        project=agent.project, panel="times", days=30, computed_at=now, data=data
    )
    target = {"id": str(agent.pk), "name": agent.name, "percent": 90, "within_s": 30}
    rows = [
        target | {"measure": "wait", "n": 200, "met": 190, "week_n": 50, "week_met": 46},
        target | {"measure": "run", "n": 9, "met": 9, "week_n": 9, "week_met": 9},
    ]
    InsightFigure.objects.create(
        project=agent.project,
        panel="task_targets",
        days=30,
        computed_at=now,
        data={"least": 50, "rows": rows},
    )


def make_predictions(agent: Agent, *, now: datetime, count: int) -> list[str]:
    """The figures of some running tasks, the last of which is done by now; return the ids."""
    titles = [HOSTILE, *(f"Step {number}" for number in range(1, count))]
    tasks = [make_task(TaskState.QUEUED, title, agent=agent, now=now) for title in titles]
    tasks.append(make_task(TaskState.DONE, "Ended meanwhile", agent=agent, now=now))
    levels = ("signature", "pattern", "agent", "kind")
    data: dict[str, Any] = {
        "likely": [
            {"task": str(each.pk), "chance": 0.9 - n / 20, "n": 20 + n, "level": levels[n % 4]}
            for n, each in enumerate(tasks)
        ],
        "shown": 40,
        "hidden": 6,
        "tasks": 2_000,
        "cases": 412,
        "brier": 0.121,
        "base": 0.176,
        "bins": [
            {"predicted": 0.05 + n / 10, "observed": 0.04 + n / 10, "cases": 4 * n + 4}
            for n in range(10)
        ],
    }
    InsightFigure.objects.create(
        project=agent.project, panel="predictions", days=0, computed_at=now, data=data
    )
    return [str(each.pk) for each in tasks]
