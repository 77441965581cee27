"""How long tasks wait and attempts run, and the targets for both, counted by hand."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from dashboard.charts.targets import TargetRow
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Plan, Task
from ledger.tasks.spec import Backoff
from ledger.tokens import TrustedCaller
from retries import claims
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.insight import targets
from retries.insight.figures import times as time_figures
from retries.insight.figures.times import compute_times
from retries.insight.targets import Subject
from retries.journal_readers import metric_totals
from retries.models import InsightFigure, MetricTotal, TaskTarget
from tests.elsewhere import blocked
from tests.factories import NOW, make_agent, make_project
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.renderings.stories import make_plan
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
STAMP = Stamp(SYSTEM, NOW)


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_figures, "LEAST_TIMES", 1)


def finish(agent: Agent, *, claimed: datetime, ended: datetime) -> None:
    live = attempt_of(claim(agent, now=claimed))
    finishing.finish_attempt(live, Report(), caller=TrustedCaller(SYSTEM, agent=agent), now=ended)


def work(agent: Agent, *, waits: int, runs: int, at: datetime = NOW, **more: Any) -> Task:
    id = make_task(agent, now=at, **more)
    claimed = at + waits * SECOND
    finish(agent, claimed=claimed, ended=claimed + runs * SECOND)
    return Task.objects.get(pk=id)


def compute(agent: Agent, panel: str = "times", *, now: datetime = NOW + DAY / 2) -> Any:
    compute_times(agent.project, now=now)
    return {row.days: row.data for row in InsightFigure.objects.filter(panel=panel)}


def agent_row(agent: Agent) -> dict[str, Any]:
    [row] = compute(agent)[30]["agent"]["rows"]
    return dict(row)


def test_times_are_counted_by_agent_type_and_plan(agent: Agent) -> None:
    other = make_agent("other")
    for seconds in (10, 20, 30):
        work(agent, waits=seconds, runs=2 * seconds)
    planned = work(other, waits=5, runs=7, type="review")
    plan = make_plan(agent)
    Task.objects.filter(pk=planned.pk).update(plan=plan, ref="03-01:task-1", run=1)
    work(agent, waits=900, runs=900, at=NOW - 3 * DAY)
    work(make_agent("stranger", project=make_project("else")), waits=1, runs=1)
    data = compute(agent)
    coder, second = data[1]["agent"]["rows"]
    assert (coder["name"], coder["n"], coder["wait_n"], coder["run_n"]) == ("coder", 3, 3, 3)
    assert (coder["wait_p50_s"], coder["wait_p95_s"]) == (20.0, 29.0)
    assert (coder["run_p50_s"], coder["run_p95_s"]) == (40.0, 58.0)
    assert (second["name"], second["wait_p50_s"], second["run_p50_s"]) == ("other", 5.0, 7.0)
    code, review = data[1]["type"]["rows"]
    assert (code["id"], code["name"], code["n"], review["name"]) == ("code", "code", 3, "review")
    [row] = data[1]["plan"]["rows"]
    assert (row["id"], row["name"][:5], row["n"]) == (str(plan.pk), "03-01", 1)
    assert [data[days]["agent"]["rows"][0]["n"] for days in (7, 30)] == [4, 4]


def test_a_task_waits_from_when_it_is_due(agent: Agent) -> None:
    make_task(agent, not_before=NOW + 10 * MINUTE)
    assert claims.unblock_tasks(stamp=Stamp(SYSTEM, NOW + 10 * MINUTE)) == 1
    finish(agent, claimed=NOW + 10 * MINUTE + 5 * SECOND, ended=NOW + 11 * MINUTE)
    assert agent_row(agent)["wait_p50_s"] == 5.0


def test_a_task_waits_from_when_its_needs_are_met(agent: Agent) -> None:
    first = make_task(agent)
    make_task(agent, needs=[first])
    finish(agent, claimed=NOW + SECOND, ended=NOW + 10 * MINUTE)
    finish(agent, claimed=NOW + 10 * MINUTE + 3 * SECOND, ended=NOW + 11 * MINUTE)
    assert agent_row(agent)["wait_p95_s"] == 2.9


def test_a_task_does_not_wait_before_its_plan_starts(agent: Agent) -> None:
    task = work(agent, waits=100, runs=1)
    plan = make_plan(agent)
    Task.objects.filter(pk=task.pk).update(plan=plan, ref="03-01:task-1", run=1)
    Plan.objects.filter(pk=plan.pk).update(not_before=NOW + 90 * SECOND)
    assert agent_row(agent)["wait_p50_s"] == 10.0
    # what is set after the claim changes nothing
    Plan.objects.filter(pk=plan.pk).update(not_before=NOW + DAY)
    assert agent_row(agent)["wait_p50_s"] == 100.0


def test_a_retry_has_a_run_and_no_wait(agent: Agent) -> None:
    make_task(agent, backoff=Backoff(base_delay_ms=0))
    fail(agent, attempt_of(claim(agent, now=NOW + SECOND)), now=NOW + MINUTE)
    finish(agent, claimed=NOW + 30 * MINUTE, ended=NOW + 31 * MINUTE)
    make_task(agent)
    claim(agent, now=NOW + 32 * MINUTE)  # it runs
    row = agent_row(agent)
    assert (row["n"], row["wait_n"], row["run_n"]) == (3, 2, 2)
    assert (row["run_p50_s"], row["wait_p50_s"]) == (59.5, 960.5)


def test_few_cases_are_hidden(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_figures, "LEAST_TIMES", 2)
    monkeypatch.setattr(time_figures, "MOST_ROWS", 1)
    for name in "ab":
        for _ in range(2):
            work(make_agent(name) if _ == 0 else Agent.objects.get(name=name), waits=1, runs=1)
    work(agent, waits=1, runs=1)
    found = compute(agent)[30]["agent"]
    assert [row["name"] for row in found["rows"]] == ["a"]
    assert (found["hidden"], found["more"]) == (1, 1)


def test_a_target_is_measured(agent: Agent) -> None:
    targets.set_target(
        Subject.of_agent(agent), percent=90, within_s=20, stamp=STAMP, measure="wait"
    )
    targets.set_target(Subject.of_agent(agent), percent=95, within_s=60, stamp=STAMP, measure="run")
    for seconds in (19, 20, 21):
        work(agent, waits=seconds, runs=3 * seconds)
    work(agent, waits=21, runs=1, at=NOW - 10 * DAY)
    wait, run = compute(agent, "task_targets")[30]["rows"]
    assert wait == {
        "id": str(agent.pk), "kind": "agent", "project": str(agent.project_id), "name": "coder",
        "measure": "wait", "percent": 90, "within_s": 20,
        "n": 4, "met": 2, "week_n": 3, "week_met": 2,
    }  # fmt: skip
    assert (run["n"], run["met"], run["week_n"], run["week_met"]) == (4, 3, 3, 2)
    assert targets.remove_target(Subject.of_agent(agent), stamp=STAMP, measure="run")
    assert not targets.remove_target(Subject.of_agent(agent), stamp=STAMP, measure="run")
    assert [each.measure for each in TaskTarget.objects.all()] == ["wait"]
    told = Event.objects.filter(kind="agent.target_set").order_by("id")
    assert [each.data for each in told] == [
        {"measure": "wait", "percent": 90, "within_s": 20},
        {"measure": "run", "percent": 95, "within_s": 60},
        {"measure": "run"},
    ]
    with pytest.raises(Invalid, match="ack, wait, run"):
        targets.set_target(
            Subject.of_agent(agent), percent=90, within_s=20, stamp=STAMP, measure="\0"
        )


@pytest.mark.django_db(transaction=True)
def test_targets_of_types_and_plans_are_measured(agent: Agent) -> None:
    plan, project = make_plan(agent), agent.project_id
    for subject in (Subject.of_plan(plan), Subject.of_type(project, "review")):
        targets.set_target(subject, percent=90, within_s=20, stamp=STAMP, measure="wait")
    targets.set_target(
        Subject.of_type(project, "code"), percent=80, within_s=60, stamp=STAMP, measure="run"
    )
    targets.set_target(Subject.of_agent(agent), percent=50, within_s=1, stamp=STAMP, measure="wait")
    foreign = make_agent("stranger", project=make_project("else"))
    for other in (agent, foreign):  # a target of a type counts its own project's tasks
        for seconds in (19, 21):
            work(other, waits=seconds, runs=3 * seconds, type="review")
            work(other, waits=seconds, runs=3 * seconds)
    planned = Task.objects.filter(agent=agent, type="review").latest("id")
    Task.objects.filter(pk=planned.pk).update(plan=plan, ref="03-01:task-1", run=1)
    rows = compute(agent, "task_targets")[7]["rows"]
    assert [(row["kind"], row["id"], row["name"]) for row in rows] == [
        ("agent", str(agent.pk), "coder"),
        ("plan", str(plan.pk), "03-01"),
        ("type", "review", "review"),
        ("type", "code", "code"),
    ]
    counts = [(row["n"], row["met"], row["week_n"], row["week_met"]) for row in rows]
    assert counts == [(4, 0, 4, 0), (1, 0, 1, 0), (2, 1, 2, 1), (2, 1, 2, 1)]
    assert compute(foreign, "task_targets")[7]["rows"] == []
    metric_totals.count_events(now=NOW)
    found = MetricTotal.objects.filter(metric="tenfour_target_burn", project=project)
    assert {
        (each.labels["type"], each.labels["plan"], each.bucket, each.count) for each in found
    } == {
        ("", None, float("inf"), 4),
        ("", "03-01", float("inf"), 1),
        *(("review", None, bucket, 1) for bucket in (0, float("inf"))),
        *(("code", None, bucket, 1) for bucket in (0, float("inf"))),
    }
    assert not MetricTotal.objects.filter(
        metric="tenfour_target_burn", project=foreign.project
    ).exists()


@pytest.mark.django_db(transaction=True)
def test_two_targets_at_once_do_not_exceed_the_limit(
    agent: Agent, elsewhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "MOST_TARGETS", 1)

    def set_of(type: str) -> None:
        subject = Subject.of_type(agent.project_id, type)
        targets.set_target(subject, percent=90, within_s=20, stamp=STAMP, measure="run")

    with transaction.atomic():
        set_of("code")
        second = elsewhere(lambda: set_of("review"))
        with blocked(second):
            pass
    with pytest.raises(Invalid, match="At most 1 targets"):
        second.result(PATIENCE_S)
    assert [each.type for each in TaskTarget.objects.all()] == ["code"]


def test_targets_of_types_and_plans_are_set_and_removed(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = Subject.of_type(agent.project_id, "code")
    plan = Subject.of_plan(make_plan(agent))
    for subject in (code, code, plan):
        targets.set_target(subject, percent=90, within_s=20, stamp=STAMP, measure="run")
    assert TaskTarget.objects.count() == 2
    monkeypatch.setattr(targets, "MOST_TARGETS", 2)
    targets.set_target(code, percent=91, within_s=20, stamp=STAMP, measure="run")
    with pytest.raises(Invalid, match="At most 2 targets"):
        targets.set_target(code, percent=90, within_s=20, stamp=STAMP, measure="wait")
    with pytest.raises(Invalid, match="Only agents acknowledge"):
        targets.set_target(plan, percent=90, within_s=20, stamp=STAMP)
    for hostile in ("", "a\0b", "a" * 65, "<b>", "ghp_" + "a" * 36):
        with pytest.raises(Invalid):
            Subject.of_type(agent.project_id, hostile)
    assert targets.remove_target(plan, stamp=STAMP, measure="run")
    assert not targets.remove_target(plan, stamp=STAMP, measure="run")
    assert [each.percent for each in TaskTarget.objects.all()] == [91]
    told = Event.objects.filter(kind="project.target_set").order_by("id")
    assert [each.data for each in told][-2:] == [
        {"type": "code", "measure": "run", "percent": 91, "within_s": 20},
        {"plan": "03-01", "measure": "run"},
    ]


def test_an_agent_without_work_has_a_target(agent: Agent) -> None:
    targets.set_target(
        Subject.of_agent(agent), percent=90, within_s=20, stamp=STAMP, measure="wait"
    )
    [row] = compute(agent, "task_targets")[1]["rows"]
    assert (row["n"], row["met"], row["week_n"], row["week_met"]) == (0, 0, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_the_metric_burns_as_the_page_says(agent: Agent) -> None:
    for measure in ("wait", "run"):
        targets.set_target(
            Subject.of_agent(agent), percent=95, within_s=20, stamp=STAMP, measure=measure
        )
    for seconds in (10, 20, 25, 30):
        work(agent, waits=seconds, runs=seconds)
    make_task(agent, backoff=Backoff(base_delay_ms=0))
    fail(agent, attempt_of(claim(agent, now=NOW + SECOND)), now=NOW + MINUTE)
    claim(agent, now=NOW + 2 * MINUTE)  # a later claim has no wait, and its attempt runs
    metric_totals.count_events(now=NOW)
    rows = {row["measure"]: TargetRow(row, 1) for row in compute(agent, "task_targets")[7]["rows"]}
    for measure, late in (("wait", 2), ("run", 3)):
        totals = MetricTotal.objects.filter(
            metric="tenfour_target_burn", labels__agent=str(agent.pk), labels__measure=measure
        )
        assert {each.bucket: each.count for each in totals} == {0: 5 - late, float("inf"): late}
        mean = sum(each.sum for each in totals) / sum(each.count for each in totals)
        assert mean == pytest.approx(rows[measure].burn) == pytest.approx(20 * late / 5)
