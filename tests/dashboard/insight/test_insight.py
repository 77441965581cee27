"""The Insight page: its figures, what it hides, and who may start an experiment."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from dashboard.insight.costs import combine_costs, combine_group
from dashboard.insight.experiments import find_scale
from dashboard.insight.idle import combine_idle
from dashboard.insight.predictions import combine_figures
from ledger import instructions
from ledger.journal import SYSTEM
from ledger.models import Agent, Event
from ledger.tokens import TrustedCaller
from retries import sweeps
from retries.insight.figures.costs import add_groups
from retries.insight.figures.reach import compute_reach
from retries.insight.figures.times import compute_times
from retries.insight.intervals import Difference
from retries.models import AckTarget, ContextExperiment, InsightFigure, TaskTarget
from tests.dashboard.insight.worlds import (
    HOSTILE,
    make_answers,
    make_costs,
    make_experiment,
    make_outcomes,
    make_policies,
    make_predictions,
    make_targets,
    make_times,
)
from tests.dashboard.seen import html, words
from tests.factories import MINUTE, NOW, make_agent, make_project, pull, send
from tests.retries.renderings.stories import make_plan

pytestmark = pytest.mark.django_db
UNKNOWN = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"


def test_nothing_has_been_computed_yet(browser: Client, agent: Agent) -> None:
    shown = words(browser.get("/insight/"))
    assert "Not computed yet." in shown and "No experiment has run here." in shown
    assert "Hidden: n = 0, shown from 20" in shown
    assert "Start an experiment…" in shown


def test_experiments_are_shown_from_fifty_a_side(
    browser: Client, agent: Agent, now: datetime
) -> None:
    make_experiment(agent, "known", (486, 355, 54, 22), now=now, ends=True)
    make_experiment(agent, "nothing", (448, 313, 50, 36), now=now, ends=True)
    make_experiment(agent, "standing", (300, 200, 49, 20), now=now, ends=False)
    shown = words(browser.get("/insight/"))
    # 355/486 and 22/54: Newcombe's interval by hand
    assert "73% with it, 41% without" in shown
    assert "−32 points (95%: −45 … −18)" in shown and "n = 540 , conclusive" in shown
    assert "A/A run: nothing left out" in shown and "not conclusive" in shown
    assert "Hidden: n = 49, shown from 50 a side" in shown
    assert shown.index("Without where things stand") < shown.index("Without known errors")
    assert "67% with it" not in shown  # below the minimum nothing is told


def test_predictions_are_shown_with_their_score(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    ids = make_predictions(agent, now=now - timedelta(minutes=4), count=12)
    shown = words(browser.get("/insight/"))
    assert "Computed 4 m ago." in shown
    assert "90% " in shown and "same signature, n = 20" in shown
    assert "Ended meanwhile" not in shown  # it is done by now
    assert "32 more below 25%." in shown
    assert "6 have n below 20 and show no chance." in shown
    assert "Brier score 0.121 on the newest fifth of the history ( n = 412 )" in shown
    assert f"/tasks/{ids[0]}/" in browser.get("/insight/").content.decode()
    assert statements(browser, "/insight/") <= 8
    InsightFigure.objects.update(data=InsightFigure.objects.get().data | {"cases": 7})
    assert "Hidden: n = 7, shown from 20" in words(browser.get("/insight/"))


def test_policies_are_shown_with_what_they_would_have_changed(
    browser: Client, agent: Agent, now: datetime
) -> None:
    make_policies(agent, now=now)
    shown = words(browser.get("/insight/"))
    assert "Would have saved 214 attempts, 1 d" in shown
    assert "Would have lost 1 of 1,902 successes" in shown
    assert "61 more times, it asked 39" in shown
    assert "See the 1 lost success" in shown and "On for tasks of plans" in shown
    assert "Hidden: n = 14, shown from 50 tasks" in shown


def test_the_time_to_answer_is_split(browser: Client, agent: Agent, now: datetime) -> None:
    make_answers(agent, now=now)
    shown = words(browser.get("/insight/"))
    assert "Half of the wait or more is before anyone looks." in shown
    assert "A typical escalation takes 22 m, n = 535" in shown
    assert "Unseen 11 m no one has opened it Thinking 6 m" in shown
    assert "Max retries exceeded n = 212 22 m 3 h" in shown
    assert "Hidden: n = 7, shown from 20" in shown


def test_targets_show_their_error_budget(browser: Client, agent: Agent, now: datetime) -> None:
    make_targets(agent, now=now)
    shown = words(browser.get("/insight/"))
    # 5 percent of 604 are 30; 12 of 100 in a week are 2.4 times the 5 that are allowed
    assert "Acknowledgment Budget spent 95% in 2 m 88.1% n = 604 72 of 30 3.2×" in shown
    assert "fast Acknowledgment Burning fast 95% in 2 m 96.0% n = 604 24 of 30 2.4×" in shown
    assert "fine Acknowledgment On target 95% in 2 m 97.7% n = 604 14 of 30 0.4×" in shown
    assert "new Acknowledgment 95% in 2 m, Hidden: n = 9, shown from 50" in shown
    row = InsightFigure.objects.get().data["rows"][2]
    InsightFigure.objects.update(
        data={"least": 50, "rows": [row | {"percent": 97, "within_s": 300}]}
    )
    page = html(browser.get("/insight/"))
    assert (
        f'href="?target=agent%3A{agent.pk}&measure=ack#target"' in page and 'id="target">' in page
    )
    page = html(browser.get("/insight/", {"target": f"agent:{agent.pk}"}))
    assert 'id="target" open>' in page and 'value="97"' in page and 'value="300"' in page
    assert f'value="agent:{agent.pk}" selected' in page


def test_times_and_their_targets_are_shown(browser: Client, agent: Agent, now: datetime) -> None:
    plan = make_plan(agent)
    make_times(agent, plan, now=now)
    page = html(browser.get("/insight/"))
    shown = words(browser.get("/insight/"))
    assert "coder n = 240 4.2 s, 40 s 1 m 20 s, 10 m 2 with n below 20 hidden." in shown
    assert "code n = 24 – 30 s, 5 m" in shown and "03-01 Ship n = 240 4.2 s, 40 s" in shown
    # the bars of a group have one scale: 300 of 600 seconds, and 30 of them
    assert '<rect class="q2" width="50.0%"' in page and '<rect class="q1" width="5.0%"' in page
    assert "coder Wait On target 90% in 30 s 95.0% n = 200 10 of 20 0.8×" in shown
    assert "coder Run 90% in 30 s, Hidden: n = 9, shown from 50" in shown
    page = html(browser.get("/insight/", {"target": f"agent:{agent.pk}", "measure": "wait"}))
    assert '<option value="wait" selected>' in page and 'value="90"' in page
    one = words(browser.get(f"/agents/{agent.pk}/"))
    assert "Wait p50, p95 4.2 s, 40 s of 212 tasks Run p50, p95 1 m 20 s, 10 m" in one
    assert "Wait: 95.0% of 200 tasks claimed in time. Target 90% in 30 s." in one
    assert "Error budget: 10 of 20 misses left." in one
    assert "Run: target 90% in 30 s. Hidden: 9 attempts, shown from 50." in one
    one = words(browser.get(f"/plans/{plan.pk}/"))
    assert "Wait p50, p95 4.2 s, 40 s of 212 tasks in 30 days" in one
    assert "Run p50, p95 1 m 20 s, 10 m of 230 attempts in 30 days" in one


def test_a_target_for_tasks_is_set_and_removed(browser: Client, agent: Agent) -> None:
    form = {"subject": f"agent:{agent.pk}", "percent": "95", "within_s": "120", "measure": "wait"}
    for wrong in ({"measure": "speed"}, {"measure": "\0"}, {"percent": "100"}):
        browser.post("/insight/targets/", form | wrong)
    assert not TaskTarget.objects.exists() and not AckTarget.objects.exists()
    browser.post("/insight/targets/", form)
    browser.post("/insight/targets/", form | {"measure": "run"})
    assert [each.measure for each in TaskTarget.objects.order_by("measure")] == ["run", "wait"]
    browser.post("/insight/targets/", form | {"do": "remove"})
    assert TaskTarget.objects.get().measure == "run"
    shown = words(browser.get("/activity/"))
    assert "Set the wait target of coder: 95% claimed within 120 s" in shown
    assert "Set the run target of coder: 95% ended within 120 s" in shown
    assert "Removed the wait target of coder" in shown


def test_types_and_plans_have_targets_on_the_page(
    browser: Client, agent: Agent, now: datetime
) -> None:
    plan, project = make_plan(agent), agent.project
    make_times(agent, plan, now=now)
    page = html(browser.get("/insight/"))
    code, of_plan = f"type:{project.pk}:code", f"plan:{plan.pk}"
    assert f'value="{code}"' in page and f'value="{of_plan}"' in page
    assert page.index('<optgroup label="Types">') < page.index(f'value="{code}"')
    form = {"subject": code, "percent": "90", "within_s": "30", "measure": "wait"}
    for wrong in (
        *({"subject": value} for value in ("", "type:", "type:x:code", f"type:{UNKNOWN}:code")),
        *({"subject": value} for value in (f"plan:{UNKNOWN}", f"agent:{plan.pk}", str(plan.pk))),
    ):
        assert browser.post("/insight/targets/", form | wrong).status_code == 404
    for wrong in ({"measure": "ack"}, {"subject": f"type:{project.pk}:{HOSTILE}"}):
        browser.post("/insight/targets/", form | wrong)
    assert not TaskTarget.objects.exists()
    browser.post("/insight/targets/", form)
    browser.post("/insight/targets/", form | {"subject": of_plan, "measure": "run"})
    compute_times(project, now=now)
    shown = words(browser.get("/insight/"))
    assert "code Wait 90% in 30 s, Hidden: n = 0, shown from 50" in shown
    assert "03-01 Run 90% in 30 s, Hidden: n = 0, shown from 50" in shown
    page = html(browser.get("/insight/", {"target": code, "measure": "wait"}))
    assert f'value="{code}" selected' in page and 'id="target" open>' in page
    one = words(browser.get(f"/plans/{plan.pk}/"))
    assert "Run target 90% in 30 s hidden: 0 attempts, shown from 50" in one
    row = {"n": 200, "met": 190, "week_n": 50, "week_met": 46}
    figure = InsightFigure.objects.get(panel="task_targets", days=30)
    for each in figure.data["rows"]:
        each |= row
    figure.save(update_fields=["data"])
    one = words(browser.get(f"/plans/{plan.pk}/"))
    assert "Run target 90% in 30 s 95.0% of 200 attempts in time, 10 of 20 misses left" in one
    browser.post("/insight/targets/", form | {"do": "remove"})
    assert TaskTarget.objects.get().plan == plan
    shown = words(browser.get("/activity/"))
    assert "Set the wait target of the type code: 90% claimed within 30 s" in shown
    assert "Set the run target of the plan 03-01: 90% ended within 30 s" in shown
    assert "Removed the wait target of the type code" in shown


def test_a_target_is_set_measured_and_removed(
    browser: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {"subject": f"agent:{agent.pk}", "percent": "95", "within_s": "120"}
    for wrong in ({"percent": "100"}, {"within_s": "x"}, {"within_s": "0"}):
        browser.post("/insight/targets/", form | wrong)
    assert not AckTarget.objects.exists()
    assert "Nothing was changed." in words(browser.get("/insight/"))
    browser.post("/insight/targets/", form)
    assert AckTarget.objects.get().set_by_name == "mara"
    for seconds in (60, 120, 121, None):
        id = send(agent, now=NOW)
        pull(agent, now=NOW)
        if seconds:
            at = NOW + timedelta(seconds=seconds)
            instructions.acknowledge_instruction(id, now=at)
    sweeps.run("insight", now=NOW + timedelta(days=1))
    (row,) = InsightFigure.objects.get(panel="targets", days=30).data["rows"]
    assert (row["n"], row["met"], row["week_n"], row["week_met"]) == (3, 2, 3, 2)
    assert "coder Acknowledgment 95% in 2 m, Hidden: n = 3, shown from 50" in words(
        browser.get("/insight/")
    )
    browser.post("/insight/targets/", form | {"do": "remove"})
    assert not AckTarget.objects.exists()
    told = Event.objects.filter(kind="agent.target_set").order_by("id")
    assert [each.data for each in told] == [{"percent": 95, "within_s": 120}, {}]
    assert browser.post("/insight/targets/", {"subject": "x"}).status_code == 404


def test_outcomes_and_rules_are_shown(browser: Client, agent: Agent, now: datetime) -> None:
    make_outcomes(agent, now=now)
    shown = words(browser.get("/insight/"))
    assert "plain n = 312 82% 64% 3 of 4" in shown
    assert "36 with n below 50 hidden. 2 more not shown." in shown
    assert "n = 1,204 61% 40%" in shown and "3 with n below 50 hidden" in shown


def test_the_clock_replays_policies(browser: Client, agent: Agent) -> None:
    sweeps.run("insight")
    found = InsightFigure.objects.get(panel="policies").data
    assert [each["name"] for each in found["policies"]] == [
        "ask_at_once",
        "obey_waits",
        "ask_on_same_failure",
    ]
    assert "Hidden: n = 0, shown from 50 tasks" in words(browser.get("/insight/"))


def test_an_experiment_is_started_and_ended(browser: Client, agent: Agent) -> None:
    form = {"in": agent.project.name, "element": "known", "share": "20"}
    form |= {"reason": "do they help?"}
    browser.post("/insight/experiments/", form | {"reason": " "})
    assert not ContextExperiment.objects.exists()
    shown = words(browser.get("/insight/"))
    assert "Give a reason of 1 to 500 characters. Nothing was changed." in shown
    # how many tasks find 20, 10 and 5 points, before the start: a tenth, a fifth, half of them
    assert "10% 529 2,164 8,705 20% 300 1,220 4,899 50% 194 783 3,138" in shown
    for share in ("", "51", "half"):
        browser.post("/insight/experiments/", form | {"share": share})
        shown = words(browser.get("/insight/"))
        assert "The share is a whole percentage from 1 to 50. Nothing was changed." in shown
    assert not ContextExperiment.objects.exists()
    done = browser.post("/insight/experiments/", form)
    assert (done.status_code, done["Location"]) == (302, "/insight/#experiments")
    one = ContextExperiment.objects.get()
    assert (one.element, one.share, one.started_by_name, one.start_reason) == (
        "known",
        20,
        "mara",
        "do they help?",
    )
    shown = words(browser.get("/insight/"))
    assert "Experiment started in default: 20% of the tasks without known errors" in shown
    assert "Share without it 20% of the tasks" in shown
    assert "End experiment" in shown and "Start an experiment…" not in shown
    browser.post("/insight/experiments/", form)
    assert "already. End it first." in words(browser.get("/insight/"))
    browser.post(f"/insight/experiments/{one.pk}/end/", {"reason": "enough"})
    one.refresh_from_db()
    assert (one.ended_by_name, one.end_reason) == ("mara", "enough")
    gone = browser.post(f"/insight/experiments/{agent.pk}/end/", {"reason": "enough"})
    assert gone.status_code == 404
    assert browser.post("/insight/experiments/", form | {"in": "gone"}).status_code == 404


def test_only_those_who_may_switch_it_see_the_form(agent: Agent, now: datetime) -> None:
    one = make_experiment(agent, "known", (0, 0, 0, 0), now=now, ends=False)
    visitor = User.objects.create_user("jonas", is_staff=True)
    visitor.user_permissions.add(Permission.objects.get(codename="view_contextexperiment"))
    client = Client()
    client.force_login(visitor)
    shown = words(client.get("/insight/"))
    assert "Without known errors" in shown
    assert "End experiment" not in shown and "Start an experiment…" not in shown
    assert client.post("/insight/experiments/", {}).status_code == 403
    assert client.post(f"/insight/experiments/{one.pk}/end/", {}).status_code == 403


def test_the_scale_holds_every_interval() -> None:
    assert find_scale([]) == 20
    assert find_scale([Difference(-0.1, -0.31, 0.05), Difference(0.1, 0, 0.2)]) == 40


def test_the_figures_of_projects_are_combined() -> None:
    bins = [{"predicted": 0.12, "observed": 0.2, "cases": 10}]
    one = {"likely": [], "shown": 3, "hidden": 1, "cases": 10, "brier": 0.1, "base": 0.2}
    two = one | {"cases": 30, "brier": 0.2, "base": 0.4}
    many = [{"predicted": 0.18, "observed": 0.4, "cases": 30}]
    nothing = {"likely": [], "shown": 0, "hidden": 2, "cases": 0, "brier": None, "base": None}
    found = combine_figures(
        [one | {"bins": bins}, two | {"bins": many}, nothing | {"bins": []}], {}
    )
    assert (found.cases, found.below, found.hidden) == (40, 6, 4)
    assert (found.brier, found.base) == (pytest.approx(0.175), pytest.approx(0.35))
    (point,) = found.points
    assert (point.predicted, point.observed) == (84, 65)


def test_the_time_of_agents_is_shown_by_range(browser: Client, agent: Agent) -> None:
    row = {"id": str(agent.pk), "name": "coder", "known": 36000.0, "work": 18000.0}
    row |= {"person": 9000.0, "breaker": 0.0}
    totals = row | {"attended": 54 * 3600.0}
    duty = {"7": [[0, 20 * 3600]], "8": [[0, 16 * 3600]]}
    data = {"agents": 3, "duty": duty, "totals": totals, "rows": [row]}
    InsightFigure.objects.create(
        project=agent.project, panel="idle", days=1, computed_at=NOW, data=data
    )
    response = browser.get("/insight/", {"range": "24h"})
    shown = words(response)
    assert "In the last 24 h, 3 agents waited 2 h for a person, 25% of their time" in shown
    assert "A person on duty keeps 1.5 agents busy, n = 36 h ." in shown
    assert (
        'aria-label="coder: working 50%, waiting for a person 25%, waiting for work 25%,'
        ' breaker open 0%"' in response.content.decode()
    )
    assert "No agent worked in the last 30 d" in words(browser.get("/insight/"))
    few = InsightFigure(project=agent.project, panel="idle", days=30, computed_at=NOW)
    few.data = data | {"duty": {"7": [[0, 19 * 3600]]}}
    few.save()
    shown = words(browser.get("/insight/"))
    assert "a person on duty keeps busy: Hidden: n = 19 h, shown from 20 h" in shown


def test_the_three_times_to_an_agent_are_shown_from_twenty_cases(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Each is delivered after 2 s, read after 5 s, and followed after 9 s."""
    few = make_agent("tester")
    for who, count in ((agent, 20), (few, 19)):
        ids = [send(who, now=now - MINUTE) for _ in range(count)]
        pull(who, now=now - MINUTE + timedelta(seconds=2))
        pull(who, now=now - MINUTE + timedelta(seconds=5))
        known = TrustedCaller(SYSTEM, agent=who)
        instructions.acknowledge(ids, caller=known, now=now - MINUTE + timedelta(seconds=9))
    compute_reach(agent.project, now=now)
    shown = words(browser.get("/insight/"))
    assert "coder 2.0 s , 2.0 s 5.0 s , 5.0 s 9.0 s , 9.0 s n = 20" in shown
    assert f"All of {agent.project.name} 2.0 s" in shown and "n = 39" in shown
    assert "tester Hidden: n = 19, shown from 20" in shown
    page = words(browser.get(f"/agents/{agent.pk}/"))
    assert "Delivered p50, p95 2.0 s, 2.0 s" in page
    assert "Read p50, p95 5.0 s, 5.0 s" in page and "Followed p50, p95 9.0 s, 9.0 s" in page


def test_a_person_of_two_projects_is_on_duty_once() -> None:
    hours = {"known": 100.0, "work": 60.0, "person": 10.0, "breaker": 0.0, "attended": 40.0 * 3600}
    row = {"name": "coder", "known": 100.0, "work": 60.0, "person": 10.0, "breaker": 0.0}
    one: dict[str, Any] = {"agents": 1, "totals": hours, "rows": [row], "least_hours": 20}
    two = one | {"rows": [row | {"name": "tester", "person": 20.0}]}
    mara, views = {"7": [[0, 36_000]]}, {"": [[0, 18_000], [36_000, 72_000]]}
    found = combine_idle([one | {"duty": mara | views}, two | {"duty": mara}], most=1)
    # ten hours of mara, and ten of views while she is not there
    assert (found.hours_on_duty, found.per_person) == (20, "4")
    assert [each.data["name"] for each in found.rows] == ["tester"]
    assert (found.agents, found.more, found.share) == (2, 1, 10)
    jonas = {"8": [[0, 36_000]], "7": [[30_000, 66_000]]}
    found = combine_idle([one | {"duty": mara}, two | {"duty": jonas}])
    assert found.on_duty == 66_000 + 36_000


def test_costs_and_tokens_have_bars_of_their_own() -> None:
    row = {"id": "1", "name": "a", "n": 9, "done": 9, "tokens": 1, "cost": 4.0, "cost_failed": 1.0}
    row |= {"tokens_failed": 0, "slots": []}
    cheap = row | {"name": "b", "cost": 1.0, "cost_failed": 0.0}
    bare = row | {"name": "c", "cost": None, "tokens": 50_000, "tokens_failed": 10_000}
    less = bare | {"name": "d", "tokens": 25_000, "tokens_failed": 0}
    rest = {"tokens": 3, "cost": 0.5, "cost_failed": 0.1, "tokens_failed": 0, "n": 2, "done": 1}
    one = {"agent": {"rows": [bare, cheap], "hidden": 0, "more": 2, "rest": rest}}
    two = {"agent": {"rows": [less, row], "hidden": 0, "more": 0}}  # of an older release
    whole = add_groups([row, cheap, bare, less, rest])
    group = combine_group("agent", "Agent", [one, two], whole)
    assert [(each.name, each.width, each.ok_width) for each in group.rows[:4]] == [
        ("a", "100.0%", "75.0%"),
        ("b", "25.0%", "25.0%"),
        ("c", "100.0%", "80.0%"),
        ("d", "50.0%", "50.0%"),
    ]
    # OPR-16: the rows add up to the last one.
    more, all = group.rows[4:]
    assert (more.name, more.cost, more.per_task) == ("2 more", "$0.50", "–")
    assert (all.name, all.cost, all.tokens) == ("All", "$5.50", "75 k")


def test_costs_say_what_no_agent_reported(browser: Client, agent: Agent, now: datetime) -> None:
    make_costs(agent, now=now)
    page = browser.get("/insight/")  # of an older release, which did not count them
    assert "missing here" not in words(page)
    figure = InsightFigure.objects.get(panel="cost")
    reports = {"agents": 8, "reporting": 4, "done": 302, "missing": 112, "silent": ["a", "b", "c"]}
    figure.data["reports"] = reports
    figure.save()
    shown = words(browser.get("/insight/"))
    assert "Reported by 4 of 8 agents. a , b , c , and 1 more send no usage, so 112 of 302" in shown
    found = combine_costs([figure.data, figure.data])
    assert found and (found.reports.agents, found.reports.more_silent) == (16, 5)


def test_weeks_and_months_are_added_up_and_compared(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """OPR-16: by the calendar, with the last whole week in a sentence, and as a file."""
    monday = now.date() - timedelta(days=now.weekday())
    day = {"attempts": 12, "done": 10, "first": 9, "proven": 5, "tokens": 70, "cost": 4.0}
    days = {
        str(monday - timedelta(days=8)): day | {"done": 4, "first": 2, "cost": 6.5},
        str(monday - timedelta(days=7)): day,
        str(monday - timedelta(days=1)): day | {"cost": None},
        str(monday): day | {"done": 1},
    }
    data = {"until": str(now.date()), "days": days}
    for project in (agent.project, make_project("other")):
        InsightFigure.objects.create(
            project=project, panel="days", days=0, computed_at=now, data=data
        )
    week = (monday - timedelta(days=1)).isocalendar().week
    shown = words(browser.get("/insight/"))
    assert f"Week {week}: 40 tasks done, 90% at the first attempt, $8.00." in shown
    before = (monday - timedelta(days=8)).isocalendar().week
    assert f"Compared with Week {before}: 32 tasks more, 40 points more, $5.00 less." in shown
    assert "not over" in shown and shown.index(f"Week {before}") < shown.index("not over")
    alone = words(browser.get("/insight/", {"project": "default", "by": "month"}))
    assert f"{monday:%B %Y}" in alone and "not over" in alone
    lines = b"".join(browser.get("/insight/export/csv/?project=default")).decode().splitlines()  # type: ignore[call-overload]
    assert lines[0] == "project,panel,days,computed_at,figure,value"
    assert any(
        line.startswith("default,days,0,") and f"{monday} / done,1" in line for line in lines
    )
    assert not any(line.startswith("other") for line in lines)
