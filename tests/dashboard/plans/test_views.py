"""The list of plans and the page of a plan."""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.test import Client

from dashboard.lists import pagination
from ledger.journal import Stamp
from ledger.models import Agent, Breaker, MissingNeed, Plan, Task
from retries import breaker_actions
from retries.models import Escalation, FailurePattern, PlanForecast
from retries.tasks import actions as people
from tests.dashboard.conftest import PART
from tests.dashboard.plans.conftest import MINUTE, TASKS, URL, address
from tests.dashboard.seen import Part, html, key, rows, words
from tests.dashboard.worked import MARA, claimed, enqueued, failed, make_plan
from tests.factories import make_agent, make_project


def test_the_page_has_a_frame_and_the_part_has_none(browser: Client, part: Part) -> None:
    page, live = html(browser.get(URL)), html(part(URL))
    assert page.startswith("<!doctype html>") and "tenfour plan import plan.yaml" in page
    assert "<html" not in live and '<div id="plans"' in live


def test_a_row_shows_progress_and_open_questions(
    browser: Client, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    make_plan("04-01", [("One", [])], agent=make_agent("gemini"), now=now)
    page = browser.get(URL)
    text = words(page)
    assert text.index("04-01") < text.index("03-01 Ledger")  # newest first
    assert (
        "Active 03-01 03-01 Ledger 1/6 tasks finished 1 needs an answer 1 Running 2 Blocked" in text
    )
    bar = "1 of 6 finished, Done 1, Running 1, Needs you 1, Blocked 2, Queued 1"
    assert f'aria-label="{bar.partition(", ")[2]}"' in html(page)
    assert f'href="/escalations/{Escalation.objects.get().pk}/"' in html(page)
    assert 'aria-label="gemini"' in html(page)


def test_plans_are_filtered_and_counted_by_state(browser: Client, now: datetime) -> None:
    """A paused plan that is then aborted or completed counts as aborted or completed."""
    at = {"paused_at": now}
    for ref, more in (
        ("01-01", {}), ("01-02", at), ("01-03", at | {"completed_at": now}),
        ("01-04", at | {"aborted_at": now}), ("01-05", {"aborted_at": now, "completed_at": now}),
    ):  # fmt: skip
        plan, _ = make_plan(ref, now=now, **more)
        shown = browser.get(URL, {"q": f"state:{plan.state}"})
        assert f">{ref}</bdi>" in html(shown)
    assert "All 5 Active 1 Paused 1 Completed 1 Aborted 2" in words(browser.get(URL))
    paused = browser.get(URL, {"q": "state:paused"})
    assert len(rows(paused, "plan")) == 1 and ">01-02</bdi>" in html(paused)


def test_a_ref_redirects_to_its_plan(browser: Client, now: datetime) -> None:
    plan, _ = make_plan("01-01", [("Lay the ground", ())], now=now)
    assert browser.get("/plans/01-01/?project=default")["Location"].startswith(f"/plans/{plan.pk}/")
    assert browser.get("/plans/01-02/").status_code == 404


def test_a_plan_is_found_by_ref_and_title(browser: Client, now: datetime) -> None:
    make_plan("03-01", title="Ledger <b>schema</b>", now=now)
    make_plan("04-01", title="Search", now=now)
    for text in ("03-01", "LEDGER", "schema 03"):
        found = browser.get(URL, {"q": text})
        assert len(rows(found, "plan")) == 1 and "Ledger" in words(found)
        assert "<b>schema" not in found.content.decode()
    none = browser.get(URL, {"q": "state:paused \x00nothing"})
    assert "Nothing matches state:paused nothing ." in words(none)


def test_paging_by_keyset(browser: Client, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "PAGE", 2)
    made = [make_plan(f"01-{n}", now=now)[0] for n in range(5)]
    first = rows(browser.get(URL), "plan")
    assert first == [str(plan.pk) for plan in reversed(made[3:])]
    older = browser.get(URL, {"before": first[-1]})
    assert rows(older, "plan") == [str(plan.pk) for plan in reversed(made[1:3])]
    assert rows(browser.get(URL, {"after": str(made[2].pk)}), "plan") == first


def test_the_list_runs_at_most_8_statements(
    browser: Client,
    statements: Callable[..., int],
    under_way: tuple[Plan, list[UUID]],
    now: datetime,
) -> None:
    assert statements(browser, URL) <= 8
    for n in range(20):
        make_plan(f"05-{n}", [("One", []), ("Two", [1])], now=now)
    assert statements(browser, URL) <= 8
    since = key(browser.get(URL))
    assert statements(browser, URL, {"since": since}, headers=PART) <= 4


def test_a_poll_shows_a_changed_task(
    part: Part, browser: Client, agent: Agent, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    plan, ids = under_way
    for path in (URL, address(plan)):
        since = key(browser.get(path))
        assert part(path, since=since).status_code == 204
    since = key(browser.get(address(plan)))
    claimed(agent, ids[5], now=now)
    assert "2 running" in words(part(address(plan), since=since))


def test_the_list_of_one_project(browser: Client, under_way: object, now: datetime) -> None:
    other = make_agent("coder", project=make_project("atlas"))
    make_plan("09-01", agent=other, now=now)
    shown = browser.get(URL, {"project": "atlas"})
    assert "09-01" in words(shown) and "03-01" not in words(shown)


def test_the_head_shows_progress_and_open_questions(
    browser: Client, under_way: tuple[Plan, list[UUID]]
) -> None:
    page = browser.get(address(under_way[0]))
    text = words(page)
    assert "16 % 1 of 6 tasks finished. 1 running, 3 pending." in text
    assert "task-2 needs an answer ; 2 tasks are waiting for it" in text  # 4 waits behind 3
    assert "Answer task-2" in text and "by architect" in text and "10 m so far" in text
    assert "<title>task-2 needs an answer · 03-01 Ledger · Tenfour</title>" in html(page)


def test_tasks_are_in_waves_and_show_their_blockers(
    browser: Client, under_way: tuple[Plan, list[UUID]]
) -> None:
    plan, ids = under_way
    page = browser.get(address(plan))
    order = [ids[n - 1] for n in (1, 6, 2, 5, 3, 4)]
    assert rows(page, "task") == [str(id) for id in order]
    text = words(page)
    assert "Wave 4" in text and "Wave 5" not in text
    assert "Review co coder attempt 0/1 3 waiting for task-2" in text
    assert "1 m 30 s" in text and " 4 m " in text and "needs you" in text
    assert "3 of 9318 invoices differ" not in text  # told by its cause
    assert "‹number› of ‹number› invoices differ" in text
    assert f'href="/patterns/{FailurePattern.objects.get().pk}/"' in html(page)


def test_a_long_error_is_shown_as_its_headline(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """The headline of a traceback is its last line."""
    plan, ids = make_plan("03-01", TASKS[:1], agent=agent, now=now)
    frames = "".join(f'  File "app.py", line {n}, in call\n    call({n})\n' for n in range(40))
    trace = f"Traceback (most recent call last):\n{frames}AssertionError: ValueError not raised"
    failed(agent, ids[0], now=now, message=trace)
    assert 'title="AssertionError: ValueError not raised"' in html(browser.get(address(plan)))


def test_a_failure_is_shown_on_the_tasks_behind_it(
    browser: Client, agent: Agent, now: datetime
) -> None:
    plan, ids = make_plan("03-01", TASKS[:4], agent=agent, now=now)
    Task.objects.filter(pk=ids[0]).update(on_exhausted="dead_letter")
    failed(agent, ids[0], now=now)
    text = words(browser.get(address(plan)))
    assert text.count("task-1 failed") == 3  # all that is behind it
    people.abort([ids[1]], stamp=Stamp(MARA, now))
    assert words(browser.get(address(plan))).count("task-2 was aborted") == 2


def test_a_need_in_another_plan_shows_its_full_ref(
    browser: Client, agent: Agent, now: datetime
) -> None:
    _, (other,) = make_plan("02-05", [("First", [])], agent=agent, now=now)
    plan, _ = make_plan("03-01", agent=agent, now=now)
    enqueued(agent, "Late", now=now, needs=[other], plan_id=plan.pk, ref="03-01:task-1", run=1)
    page = browser.get(address(plan))
    assert "waiting for 02-05:task-1" in words(page)
    assert f'<a href="/tasks/{other}/" title="02-05:task-1, queued: First"' in html(page)


def test_a_paused_plan_holds_its_tasks(browser: Client, agent: Agent, now: datetime) -> None:
    plan, (id,) = make_plan("03-01", [("One", [])], agent=agent, now=now, paused_at=now)
    assert "on hold, plan paused" in words(browser.get("/tasks/"))
    assert " on hold, plan paused " in words(browser.get(address(plan)))
    assert "On hold: its plan is paused." in words(browser.get(f"/tasks/{id}/"))


def test_only_the_replacement_of_a_task_is_shown(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """The tasks of the previous run are counted under that run."""
    plan, (old,) = make_plan("03-01", [("One", [])], agent=agent, now=now - MINUTE)
    people.abort([old], stamp=Stamp(MARA, now))
    Task.objects.filter(pk=old).update(replaced_by=enqueued(agent, "For now", now=now))
    more = {"plan_id": plan.pk, "ref": "03-01:task-1", "run": 2}
    new = enqueued(agent, "One", now=now, **more)
    Task.objects.filter(pk=old).update(replaced_by=new)
    Plan.objects.filter(pk=plan.pk).update(run=2)
    page = browser.get(address(plan))
    assert rows(page, "task") == [str(new)]
    assert "Previous runs 1 Run 1" in words(page) and "run 2" in words(page)


def test_a_plan_page_runs_at_most_15_statements(
    browser: Client,
    statements: Callable[..., int],
    agent: Agent,
    now: datetime,
    under_way: tuple[Plan, list[UUID]],
) -> None:
    few = statements(browser, address(under_way[0]))
    plan, ids = make_plan("07-01", [(f"Part {n}", []) for n in range(160)], agent=agent, now=now)
    for id in ids[:10]:
        failed(agent, id, now=now, type="verification_failed")
    assert statements(browser, address(plan)) == few <= 15
    assert "Showing 100 of 160 tasks." in words(browser.get(address(plan)))
    since = key(browser.get(address(plan)))
    assert statements(browser, address(plan), {"since": since}, headers=PART) <= 4


def test_an_unknown_plan(browser: Client) -> None:
    assert browser.get(f"{URL}{uuid4()}/").status_code == 404


def test_the_sidebar_lists_plans_under_way(
    browser: Client, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    make_plan("01-01", title="Long ago", now=now, completed_at=now)
    page = browser.get("/tasks/")
    assert "Plans in progress 03-01 Ledger 1/6" in words(page)
    assert "ring ring--red" in html(page) and "Long ago" not in words(page)
    assert "1 needs an answer" in words(browser.get(URL))
    Escalation.objects.update(snoozed_until=now + timedelta(hours=1))
    assert "ring ring--red" not in html(browser.get("/tasks/"))
    assert "1 needs an answer" not in words(browser.get(URL))


def test_a_task_links_to_its_plan(
    browser: Client, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    plan, ids = under_way
    enqueued(make_agent("gemini"), "On its own", now=now)
    one = html(browser.get(f"/tasks/{ids[2]}/"))
    assert f'href="{address(plan)}"' in one and "03-01:task-3" in one
    found = browser.get("/tasks/", {"q": "plan:03-01"})
    assert sorted(rows(found, "task")) == sorted(map(str, ids))
    assert "waiting for 03-01:task-2" in words(found)
    assert len(rows(browser.get("/tasks/", {"q": "-plan:03-01"}), "task")) == 1


def test_other_pages_show_the_refs_of_tasks(
    browser: Client, under_way: tuple[Plan, list[UUID]], agent: Agent, now: datetime
) -> None:
    Escalation.objects.update(opened_at=now - 61 * MINUTE)  # no news, but it waits
    assert "03-01:task-2 Backfill" in words(browser.get("/"))
    breaker_actions.trip([agent], reason="", stamp=Stamp(MARA, now - 2 * MINUTE))
    Breaker.objects.update(state="half_open")
    Breaker.objects.update(probe_attempt=Task.objects.get(pk=under_way[1][4]).current_attempt)
    assert "Probe: 03-01:task-5 API" in words(browser.get(f"/agents/{agent.pk}/"))


def test_the_search_finds_refs(
    browser: Client, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    plan, ids = under_way

    def found(text: str) -> str:
        return str(browser.get("/search/", {"q": text}).headers["Location"])

    assert found("03-01") == found(str(plan.pk)) == address(plan)
    assert found("03-01:task-3") == f"/tasks/{ids[2]}/"
    assert "Location" not in browser.get("/search/", {"q": "03-02"})  # a page of results
    make_plan("03-01", agent=make_agent(project=make_project("atlas")), now=now)
    assert found(" `03-01:task-3`, ") == f"/tasks/{ids[2]}/"


def test_the_search_lists_the_tasks_with_one_ref(
    browser: Client, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    make_plan("03-01", [("One", [])], agent=make_agent(project=make_project("atlas")), now=now)
    text = {"q": "03-01:task-1"}
    to = browser.get("/search/", text)["Location"]
    assert to == "/tasks/?q=03-01%3Atask-1"
    assert words(browser.get(to)).count("03-01:task-1 ") >= 2
    assert browser.get("/search/", text | {"project": "atlas"})["Location"].startswith("/tasks/0")


def test_needs_are_links_with_escaped_texts(browser: Client, agent: Agent, now: datetime) -> None:
    plan, ids = make_plan("03-01", [('<b>"one"</b>', []), ("two", [1])], agent=agent, now=now)
    MissingNeed.objects.create(project=agent.project, task_id=ids[1], ref="09-01:<i>")
    make_project("other")
    page = browser.get(address(plan), {"project": "default"}).content.decode()
    tip = 'title="03-01:task-1, queued: &lt;b&gt;&quot;one&quot;&lt;/b&gt;" class="is-unmet"'
    link = f'<a href="/tasks/{ids[0]}/?project=default" {tip}><bdi>1</bdi></a>, '
    missing = (
        'title="09-01:&lt;i&gt;: not imported yet" class="is-unmet"><bdi>09-01:&lt;i&gt;</bdi>'
    )
    assert f"{link}<span {missing}</span>" in page


def test_the_forecast_stands_beside_the_progress(
    browser: Client, agent: Agent, now: datetime, under_way: tuple[Plan, list[UUID]]
) -> None:
    plan, _ = under_way

    def shown() -> str:
        text = words(browser.get(address(plan)))
        return text[: text.index(" Imported ")].rpartition("needs an answer")[2]

    assert "No forecast. The clock makes it in a minute." in shown()
    stored = {"plan": plan, "project": plan.project, "run": 1, "cases": 19, "made_at": now}
    PlanForecast.objects.create(**stored, is_kept=False, reason="few_cases")
    assert "No forecast. There are few data: it is made from 20 attempts on." in shown()
    times = {
        "low_at": now + 60 * MINUTE,
        "median_at": now + 120 * MINUTE,
        "high_at": now + 240 * MINUTE,
    }
    costs = {"low_cost": 3.1, "median_cost": 4.4, "high_cost": 6.9}
    PlanForecast.objects.update(reason="", cases=86, **times, **costs)
    assert "cost $4.40 , 80% between $3.10 and $6.90 (from 86 attempts)" in shown()
    for n in range(20):
        other, _ = make_plan(f"08-{n}", agent=agent, now=now)
        ended = now + (180 if n < 17 else 300) * MINUTE
        PlanForecast.objects.create(
            **stored | {"plan": other}, is_kept=True, ended_at=ended, **times
        )
    assert "(from 86 attempts; 17 of 20 plans ended inside such an interval)" in shown()
    PlanForecast.objects.update(cost_unit="tokens", low_cost=3_100, median_cost=4_400)
    assert "cost 4.4 k , 80% between 3.1 k" in shown()
    Plan.objects.filter(pk=plan.pk).update(paused_at=now)
    assert "Forecast" not in shown() and "Done by" not in shown()
