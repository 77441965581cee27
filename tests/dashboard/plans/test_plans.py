"""The Plans pages: the list with its bars, and one plan with its tasks in waves."""

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from html import unescape
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dashboard import live_updates, pagination
from dashboard.dependencies import NeedLink, natural_key
from dashboard.plans import progress
from dashboard.plans.flow_chart import draw_flow
from dashboard.plans.waves import assign_waves, find_blockers
from ledger.models import Agent, Breaker, MissingNeed, Plan, Task
from ledger.states import TaskState
from retries import breaker, in_process
from retries import task_actions as people
from retries.models import Escalation, FailurePattern
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, rows, said, words
from tests.dashboard.worked import MARA, claimed, enqueued, failed, make_plan
from tests.factories import make_agent, make_project

pytestmark = pytest.mark.django_db

URL = "/plans/"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
# 1 is done; 2 failed and asks a person; 3 waits for 2, 4 for 3; 5 runs; 6 needs nothing
TASKS = [("Schema", []), ("Backfill", [1]), ("Reconcile", [2]), ("Review", [3]), ("API", [1]),
         ("Runbook", [])]  # fmt: skip


def address(plan: Plan) -> str:
    return f"{URL}{plan.pk}/"


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is torn by the end of a bucket."""
    monkeypatch.setattr(live_updates, "BUCKET_SECONDS", 10**9)


@pytest.fixture
def under_way(agent: Agent, now: datetime) -> tuple[Plan, list[UUID]]:
    """TASKS, ten minutes on."""
    at = now - 10 * MINUTE
    plan, ids = make_plan("03-01", TASKS, title="Ledger", agent=agent, now=at)
    in_process.report_success(claimed(agent, ids[0], now=at), {}, now=at + 90 * SECOND)
    failed(agent, ids[1], now=at + 2 * MINUTE, message="3 of 9318 invoices differ")
    claimed(agent, ids[4], now=at + 6 * MINUTE)
    return plan, ids


# ---- the list


def test_the_page_has_its_frame_and_the_part_has_none(browser: Client, part: Part) -> None:
    page, live = html(browser.get(URL)), html(part(URL))
    assert page.startswith("<!doctype html>") and "tenfour plan import plan.yaml" in page
    assert "<html" not in live and '<div id="plans"' in live


def test_a_line_says_how_far_its_plan_got_and_whether_it_needs_somebody(
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


def test_states_are_told_apart_and_counted(browser: Client, now: datetime) -> None:
    """A restarted or aborted plan may have been paused: the last word counts."""
    at = {"paused_at": now}
    for ref, more in (
        ("01-01", {}), ("01-02", at), ("01-03", at | {"completed_at": now}),
        ("01-04", at | {"aborted_at": now}), ("01-05", {"aborted_at": now, "completed_at": now}),
    ):  # fmt: skip
        plan, _ = make_plan(ref, now=now, **more)
        shown = browser.get(URL, {"show": plan.state})
        assert f">{ref}</bdi>" in html(shown)
    assert "All 5 Active 1 Paused 1 Completed 1 Aborted 2" in words(browser.get(URL))
    paused = browser.get(URL, {"show": "paused"})
    assert len(rows(paused, "plan")) == 1 and ">01-02</bdi>" in html(paused)


def test_a_plan_has_an_address_that_people_can_say(browser: Client, now: datetime) -> None:
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
    none = browser.get(URL, {"q": "\x00nothing", "show": "paused"})
    assert "No paused plan has nothing in its ref or title." in words(none)


def test_pages_go_on_by_keyset(
    browser: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "PAGE", 2)
    made = [make_plan(f"01-{n}", now=now)[0] for n in range(5)]
    first = rows(browser.get(URL), "plan")
    assert first == [str(plan.pk) for plan in reversed(made[3:])]
    older = browser.get(URL, {"before": first[-1]})
    assert rows(older, "plan") == [str(plan.pk) for plan in reversed(made[1:3])]
    assert rows(browser.get(URL, {"after": str(made[2].pk)}), "plan") == first


def test_the_list_costs_eight_statements_whatever_the_number(
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


def test_a_poll_hears_of_a_task_that_moves(
    part: Part, browser: Client, agent: Agent, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    plan, ids = under_way
    for path in (URL, address(plan)):
        since = key(browser.get(path))
        assert part(path, since=since).status_code == 204
    since = key(browser.get(address(plan)))
    claimed(agent, ids[5], now=now)
    assert "2 running" in words(part(address(plan), since=since))


def test_a_project_shows_its_own(browser: Client, under_way: object, now: datetime) -> None:
    other = make_agent("coder", project=make_project("atlas"))
    make_plan("09-01", agent=other, now=now)
    shown = browser.get(URL, {"project": "atlas"})
    assert "09-01" in words(shown) and "03-01" not in words(shown)


# ---- one


def test_the_head_says_how_far_it_got_and_what_it_waits_for(
    browser: Client, under_way: tuple[Plan, list[UUID]]
) -> None:
    page = browser.get(address(under_way[0]))
    text = words(page)
    assert "16 % 1 of 6 tasks finished. 1 running, 3 pending." in text
    assert "task-2 needs an answer ; 2 tasks are waiting for it" in text  # 4 waits behind 3
    assert "Answer task-2" in text and "by architect" in text and "10 m so far" in text
    assert "<title>task-2 needs an answer · 03-01 Ledger · Tenfour</title>" in html(page)


def test_tasks_stand_in_waves_and_say_what_holds_them_up(
    browser: Client, under_way: tuple[Plan, list[UUID]]
) -> None:
    plan, ids = under_way
    page = browser.get(address(plan))
    order = [ids[n - 1] for n in (1, 6, 2, 5, 3, 4)]
    assert rows(page, "task") == [str(id) for id in order]
    text = words(page)
    assert "Wave 4" in text and "Wave 5" not in text
    assert "Review co coder attempt 0/1 3 waiting for task-2" in text
    assert "1 m 30 s" in text and " 4 m " in text and "waits for you" in text
    assert "3 of 9318 invoices differ" not in text  # told by its cause
    assert "‹number› of ‹number› invoices differ" in text
    assert f'href="/patterns/{FailurePattern.objects.get().pk}/"' in html(page)


def test_a_long_error_is_told_by_the_line_of_its_pattern(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """The end of a traceback says what went wrong, however far down it stands."""
    plan, ids = make_plan("03-01", TASKS[:1], agent=agent, now=now)
    frames = "".join(f'  File "app.py", line {n}, in call\n    call({n})\n' for n in range(40))
    trace = f"Traceback (most recent call last):\n{frames}AssertionError: ValueError not raised"
    failed(agent, ids[0], now=now, message=trace)
    assert 'title="AssertionError: ValueError not raised"' in html(browser.get(address(plan)))


def test_a_failure_upstream_is_shown_downstream(
    browser: Client, agent: Agent, now: datetime
) -> None:
    plan, ids = make_plan("03-01", TASKS[:4], agent=agent, now=now)
    Task.objects.filter(pk=ids[0]).update(on_exhausted="dead_letter")
    failed(agent, ids[0], now=now)
    text = words(browser.get(address(plan)))
    assert text.count("task-1 failed") == 3  # all that is behind it
    people.abort([ids[1]], actor=MARA, now=now)
    assert words(browser.get(address(plan))).count("task-2 was aborted") == 2


def test_a_need_of_another_plan_is_called_by_its_whole_ref(
    browser: Client, agent: Agent, now: datetime
) -> None:
    _, (other,) = make_plan("02-05", [("First", [])], agent=agent, now=now)
    plan, _ = make_plan("03-01", agent=agent, now=now)
    enqueued(agent, "Late", now=now, needs=[other], plan_id=plan.pk, ref="03-01:task-1", run=1)
    page = browser.get(address(plan))
    assert "waiting for 02-05:task-1" in words(page)
    assert f'<a href="/tasks/{other}/" title="02-05:task-1, queued: First"' in html(page)


def test_a_paused_plan_says_that_its_tasks_are_held(
    browser: Client, agent: Agent, now: datetime
) -> None:
    plan, (id,) = make_plan("03-01", [("One", [])], agent=agent, now=now, paused_at=now)
    assert "held, its plan is paused" in words(browser.get("/tasks/"))
    assert " held, plan paused " in words(browser.get(address(plan)))
    assert "It is held: its plan is paused." in words(browser.get(f"/tasks/{id}/"))


def test_only_the_row_that_took_the_place_is_shown(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """The run before keeps its rows; what became of them is told apart."""
    plan, (old,) = make_plan("03-01", [("One", [])], agent=agent, now=now - MINUTE)
    people.abort([old], actor=MARA, now=now)
    Task.objects.filter(pk=old).update(replaced_by=enqueued(agent, "For now", now=now))
    more = {"plan_id": plan.pk, "ref": "03-01:task-1", "run": 2}
    new = enqueued(agent, "One", now=now, **more)
    Task.objects.filter(pk=old).update(replaced_by=new)
    Plan.objects.filter(pk=plan.pk).update(run=2)
    page = browser.get(address(plan))
    assert rows(page, "task") == [str(new)]
    assert "Previous runs 1 Run 1" in words(page) and "run 2" in words(page)


def test_one_costs_at_most_15_statements(
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


def test_one_that_is_not_there(browser: Client) -> None:
    assert browser.get(f"{URL}{uuid4()}/").status_code == 404


# ---- what people do with one


def do(client: Client, plan: Plan, verb: str, **data: str) -> str:
    return said(client, f"{address(plan)}{verb}/", data)


def test_a_plan_is_paused_and_resumed(
    browser: Client, under_way: tuple[Plan, list[UUID]], agent: Agent, now: datetime
) -> None:
    plan, _ = under_way
    assert "Pause plan" in words(browser.get(address(plan)))
    assert "Plan paused. Agents get no more of its tasks" in do(browser, plan, "pause")
    plan.refresh_from_db()
    assert plan.state == "paused"
    assert "Nothing changed. The plan changed in the meantime." in do(browser, plan, "pause")
    page = words(browser.get(address(plan)))
    assert "Resume plan" in page and "Pause plan" not in page
    assert "mara paused “ 03-01 Ledger ”" in page
    assert "Plan resumed." in do(browser, plan, "resume")


def test_abort_asks_first_and_says_what_it_stops(
    browser: Client, under_way: tuple[Plan, list[UUID]]
) -> None:
    """S1.46 from the plan's page: what runs is told, the rest is stopped, questions are withdrawn."""
    plan, ids = under_way
    response = browser.post(f"{address(plan)}abort/", follow=True)
    assert response.redirect_chain[-1][0] == f"{address(plan)}?ask=abort"
    asked = words(response)
    assert "Abort this plan?" in asked and "1 running task is told to stop" in asked
    assert "4 pending tasks are aborted. 1 open question is withdrawn." in asked
    assert Plan.objects.get(pk=plan.pk).state == "active"
    assert "Plan aborted." in do(browser, plan, "abort", confirmed="yes", reason="wrong branch")
    states = [Task.objects.get(pk=id).state for id in ids]
    assert states == ["done", "aborted", "aborted", "aborted", "running", "aborted"]
    page = words(browser.get(address(plan)))
    assert "mara aborted it : wrong branch" in page
    assert "Restart…" not in page and "can restart after running tasks end" in page


@pytest.mark.parametrize("carried", [False, True])
def test_a_restart_begins_a_new_run(
    browser: Client, under_way: tuple[Plan, list[UUID]], agent: Agent, now: datetime, carried: bool
) -> None:
    """S1.34, S1.35: counters start at 0, unless they are carried over."""
    plan, ids = under_way
    do(browser, plan, "abort", confirmed="yes")
    attempt = Task.objects.get(pk=ids[4]).current_attempt
    in_process.report_success(attempt, {}, now=now)  # type: ignore[arg-type]
    asked = words(browser.get(address(plan), {"ask": "restart"}))
    assert "Restart this plan?" in asked and "start over as run 2." in asked
    none = do(browser, plan, "restart", confirmed="yes", counters="carry", carry_over="soon")
    assert "Nothing changed. Enter the date and time" in none
    more = {"counters": "carry", "carry_over": "2020-01-01T00:00"} if carried else {}
    assert "Plan restarted as run 2." in do(browser, plan, "restart", confirmed="yes", **more)
    new = Task.objects.current().get(ref="03-01:task-2")
    assert new.pk != ids[1] and new.attempts == (1 if carried else 0)
    pips = '<i class="f"></i><i></i>' if carried else "<i></i></span>"
    assert pips in html(browser.get(address(plan)))
    page = words(browser.get(address(plan)))
    assert (
        "Previous runs 1 Run 1" in page
        and "run 2" in page
        and "mara restarted it as run 2, with" in page
    )


def test_verbs_are_posted_by_operators_to_plans_that_are_there(
    browser: Client, under_way: tuple[Plan, list[UUID]]
) -> None:
    plan, _ = under_way
    assert browser.get(f"{address(plan)}pause/").status_code == 405
    assert browser.post(f"{address(plan)}explode/").status_code == 404
    assert browser.post(f"{URL}{uuid4()}/pause/").status_code == 404
    assert Client().post(f"{address(plan)}pause/").status_code == 302
    assert Plan.objects.get(pk=plan.pk).state == "active"


# ---- imported on the page

IMPORT = f"{URL}import/"
FILE = """ref: 03-01
title: Ledger
tasks:
  - title: Add the <tables>
    agent: coder
    verify: {command: "make test > /dev/null"}
  - title: Backfill
    agent: coder
    needs: task-1
"""


def form(text: str = FILE, **more: Any) -> dict[str, Any]:
    return {"project": "default", "mode": "create", "text": text, **more}


def test_a_plan_is_shown_before_it_is_made(browser: Client, agent: Agent) -> None:
    assert "commands run on its agents’ machines" in words(browser.get(IMPORT))
    shown = browser.post(IMPORT, form())
    text = words(shown)
    assert "Nothing is imported yet." in text and "2 tasks will be added" in text
    assert "commands run on its agents’ machines" in text
    assert "2, 1 with a command" in text and "make test > /dev/null" in text
    assert "Add the &lt;tables&gt;" in shown.content.decode()
    assert not Plan.objects.exists() and not Task.objects.exists()
    made = browser.post(IMPORT, form(confirmed="yes"), follow=True)
    plan = Plan.objects.get()
    assert made.redirect_chain[-1][0] == address(plan)
    assert "Imported: 2 added." in words(made)
    assert plan.created_by_name == "mara"


MARKDOWN = """---
phase: 03
plan: 01
agent: coder
---
<tasks>
<task type="auto">
<name>Create the error</name>
<action>Write it</action>
<verify>`npm test -- Error`</verify>
</task>
</tasks>
"""


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_command_that_stood_in_prose_is_run_only_if_a_person_says_so(
    browser: Client, agent: Agent, confirmed: bool
) -> None:
    shown = words(browser.post(IMPORT, form(MARKDOWN)))
    assert "$ npm test -- Error proposed, not run" in shown
    assert "Confirm 1 proposed command found in the plan’s prose" in shown
    more = {"confirm_commands": "on"} if confirmed else {}
    browser.post(IMPORT, form(MARKDOWN, confirmed="yes", **more))
    verify = Task.objects.get().payload["verify"]
    assert verify.get("command") == ("npm test -- Error" if confirmed else None)


def test_a_plan_that_names_no_agent_gets_the_one_of_the_form(browser: Client, agent: Agent) -> None:
    """As plans in Markdown occur in the wild; the preview carries it on."""
    wild = MARKDOWN.replace("agent: coder\n", "")
    refused = browser.post(IMPORT, form(wild))
    assert refused.status_code == 422 and "/agent" in refused.content.decode()
    page = html(browser.post(IMPORT, form(wild, agent="coder")))
    fields = dict(re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)"', page))
    browser.post(IMPORT, form(wild, confirmed="yes", agent=fields["agent"]))
    assert Task.objects.get().agent == agent


def test_proposed_commands_are_confirmed_on_the_plan_s_page(browser: Client, agent: Agent) -> None:
    """As of a plan that was imported elsewhere; what changed since it was shown is left alone."""
    task = MARKDOWN.partition("<tasks>\n")[2].partition("</tasks>")[0]
    browser.post(IMPORT, form(MARKDOWN.replace(task, task * 3), confirmed="yes"))
    plan = Plan.objects.get()
    one, two, three = Task.objects.order_by("ref")
    page = words(browser.get(f"{URL}{plan.pk}/"))
    assert "Proposed commands 3" in page and "$ npm test -- Error" in page
    verb, seen = f"{URL}{plan.pk}/commands/", [f"{task.pk}:{task.version}" for task in (one, two)]
    done = browser.post(verb, {"one": seen[0], "all": seen}, follow=True)
    assert "Confirmed 1 command." in words(done) and "Proposed commands 2" in words(done)
    stale = browser.post(verb, {"all": [f"{two.pk}:{two.version + 1}", "x"]}, follow=True)
    assert "Nothing changed." in words(stale)
    browser.post(verb, {"all": seen})
    verified = [Task.objects.get(pk=task.pk).payload["verify"] for task in (one, two, three)]
    assert [each.get("command") for each in verified] == ["npm test -- Error"] * 2 + [None]
    assert Client().post(verb, {"all": seen}).status_code in (302, 403)


def test_an_uploaded_file_is_carried_through_the_preview(browser: Client, agent: Agent) -> None:
    upload = SimpleUploadedFile("plan.yaml", FILE.encode())
    shown = html(browser.post(IMPORT, form("", file=upload)))
    assert "<b>2 tasks</b> will be added" in shown and "needs: task-1" in shown
    bad = SimpleUploadedFile("plan.yaml", b"\xff\xfe")
    refused = browser.post(IMPORT, form("", file=bad))
    assert refused.status_code == 422 and "The file is not UTF-8" in refused.content.decode()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Paste a plan or choose a file."),
        ("tasks: [", "The plan is not valid YAML"),
        (FILE.replace("03-01", "nonsense"), "is not a plan's ref"),
        (FILE.replace("task-1", "task-2"), "/tasks/1/needs"),
        (FILE.replace("coder", "nobody"), "nobody"),
    ],
)
def test_what_does_not_fit_is_said_and_the_text_is_kept(
    browser: Client, agent: Agent, text: str, says: str
) -> None:
    refused = browser.post(IMPORT, form(text, confirmed="yes"))
    assert refused.status_code == 422
    page = unescape(refused.content.decode())
    assert says in page and text in page
    assert not Plan.objects.exists()


def test_a_changed_plan_says_what_merging_would_do(browser: Client, agent: Agent) -> None:
    browser.post(IMPORT, form(confirmed="yes"))
    changed = FILE.replace("title: Backfill", "title: Backfill 2024") + (
        "  - {title: Review, agent: coder, needs: task-2}\n"
    )
    refused = browser.post(IMPORT, form(changed))
    assert refused.status_code == 422
    assert "Plan 03-01 already exists with different content" in refused.content.decode()
    shown = words(browser.post(IMPORT, form(changed, mode="merge")))
    assert "1 task will be added" in shown
    assert "1 task will be updated: 03-01:task-2" in shown.replace(" : ", ": ")
    assert Task.objects.count() == 2
    browser.post(IMPORT, form(changed, mode="merge", confirmed="yes"))
    assert Task.objects.count() == 3
    same = words(browser.post(IMPORT, form(changed, mode="merge")))
    assert "This plan is already imported" in same and "Import 03-01" not in same


# ---- elsewhere


def test_the_sidebar_has_the_plans_under_way(
    browser: Client, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    make_plan("01-01", title="Long ago", now=now, completed_at=now)
    page = browser.get("/tasks/")
    assert "Plans under way 03-01 Ledger 1/6" in words(page)
    assert "ring ring--red" in html(page) and "Long ago" not in words(page)


def test_a_task_leads_to_its_plan(
    browser: Client, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    plan, ids = under_way
    enqueued(make_agent("gemini"), "On its own", now=now)
    one = html(browser.get(f"/tasks/{ids[2]}/"))
    assert f'href="{address(plan)}"' in one and "03-01:task-3" in one
    found = browser.get("/tasks/", {"q": "plan:03-01"})
    assert sorted(rows(found, "task")) == sorted(map(str, ids))
    assert "waits for 03-01:task-2" in words(found)
    assert len(rows(browser.get("/tasks/", {"q": "-plan:03-01"}), "task")) == 1


def test_a_ref_is_told_where_a_task_is_told_of(
    browser: Client, under_way: tuple[Plan, list[UUID]], agent: Agent, now: datetime
) -> None:
    assert "03-01:task-2 Backfill" in words(browser.get("/"))  # needs a person
    breaker.trip([agent], reason="", actor=MARA, now=now - 2 * MINUTE)
    Breaker.objects.update(state="half_open")
    Breaker.objects.update(probe_attempt=Task.objects.get(pk=under_way[1][4]).current_attempt)
    assert "Probe: 03-01:task-5 API" in words(browser.get("/agents/"))


def test_a_ref_is_found_by_the_search(
    browser: Client, under_way: tuple[Plan, list[UUID]], now: datetime
) -> None:
    plan, ids = under_way

    def found(text: str) -> str:
        return str(browser.get("/search/", {"q": text}).headers["Location"])

    assert found("03-01") == found(str(plan.pk)) == address(plan)
    assert found("03-01:task-3") == f"/tasks/{ids[2]}/"
    assert found("03-02").startswith("/instructions/")
    make_plan("03-01", agent=make_agent(project=make_project("atlas")), now=now)
    assert found("03-01") == "/plans/?q=03-01"


# ---- the pictures (pure)


class Row:
    """As much of a task as a picture looks at."""

    def __init__(self, state: TaskState, *, attempts: int = 1, reason: str | None = None) -> None:
        self.pk, self.state, self.attempts = uuid4(), state, attempts
        self.blocked_reason = reason


def link(task: Row, need: Row) -> NeedLink:
    return NeedLink(task.pk, need.pk, "p-1:task-1", need.state, "")


def test_a_wave_is_one_more_than_what_it_needs() -> None:
    a, b, c, d = (Row(TaskState.QUEUED) for _ in range(4))
    found = assign_waves([d.pk, c.pk, b.pk, a.pk], [link(b, a), link(c, b), link(c, a)])
    assert found == {a.pk: 1, b.pk: 2, c.pk: 3, d.pk: 1}
    assert assign_waves([a.pk, b.pk], [link(a, b), link(b, a)]) == {
        a.pk: 1,
        b.pk: 1,
    }  # never for ever


def test_what_holds_up_is_followed_to_the_head_of_the_chain() -> None:
    first = Row(TaskState.FAILED)
    second, third = (Row(TaskState.BLOCKED, reason="dependency") for _ in range(2))
    met = Row(TaskState.DONE)
    chain = [link(second, first), link(third, second), link(third, met)]
    found = find_blockers([first, second, third], chain)
    assert {id: [each.need for each in held] for id, held in found.items()} == {
        second.pk: [first.pk],
        third.pk: [first.pk],
    }


def test_a_large_plan_is_looked_through_once() -> None:
    """500 tasks and 2,000 needs: what each waits for in the end, as a search from each finds it."""
    chance = Random(5)
    rows = [
        Row(TaskState.BLOCKED, reason="dependency") if n > 40 and n % 9 else Row(TaskState.QUEUED)
        for n in range(500)
    ]
    links = [
        NeedLink(row.pk, need.pk, f"p-1:task-{rows.index(need)}", need.state, "")
        for n, row in enumerate(rows)
        if row.blocked_reason
        for need in chance.sample(rows[max(0, n - 60) : n], 4)
    ]
    needs: dict[Any, list[NeedLink]] = {}
    for each in links:
        needs.setdefault(each.task, []).append(each)

    @cache
    def heads(id: Any) -> frozenset[NeedLink]:
        below = (heads(each.need) if each.need in needs else {each} for each in needs[id])
        return frozenset(link for found in below for link in found)

    held = find_blockers(rows, links)
    assert held.keys() == needs.keys()
    for id, found in held.items():
        assert {each.need for each in found} == {each.need for each in heads(id)}
        assert [each.ref for each in found] == sorted((each.ref for each in found), key=natural_key)
        assert len(found) == len({each.need for each in found})


def test_needs_are_links_and_never_more_than_text(
    browser: Client, agent: Agent, now: datetime
) -> None:
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


def test_the_flow_carries_every_task_from_its_start_to_where_it_stands() -> None:
    done, again, asked = (
        Row(TaskState.DONE),
        Row(TaskState.DONE, attempts=2),
        Row(TaskState.ESCALATED),
    )
    rows: list[Any] = [done, again, asked, Row(TaskState.QUEUED, attempts=0)]
    drawn = draw_flow(rows, Counter({again.pk: 1, asked.pk: 1}))
    assert drawn and drawn.summary == "3 tasks started, 1 failed once, 2 done, 1 needs an answer."
    assert [(bar.count, bar.word) for bar in drawn.bars] == [
        (2, "done"), (1, "needs an answer"), (3, "started"), (1, "failed once")
    ]  # fmt: skip
    assert draw_flow([Row(TaskState.QUEUED, attempts=0)], {}) is None


def test_the_figures_are_those_of_the_summary() -> None:
    """S1.66: of five tasks three worked at once, one of the two that were retried in the end."""
    once = [Row(TaskState.DONE) for _ in range(3)]
    retried, skipped = Row(TaskState.DONE, attempts=2), Row(TaskState.SKIPPED, attempts=3)
    rows: list[Any] = [*once, retried, skipped]
    failures = Counter({retried.pk: 1, skipped.pk: 3})
    tally = progress.TaskCounts(Counter(row.state for row in rows))
    found = progress.build_figures(tally, rows, failures, questions=1, open_questions=0)
    assert [(each.value, each.note) for each in found] == [
        ("5", "5 started"), ("60%", "3 of 5"), ("40%", "2 of 5"), ("50%", "1 of 2 finished"),
        ("1", ""), ("1", "of 5"),
    ]  # fmt: skip


def test_a_bar_is_full_of_its_tasks() -> None:
    found = progress.build_bar(Counter({"done": 1, "running": 1, "queued": 2}))
    assert [(each.state, each.x, each.width) for each in found.segments] == [
        ("done", 0.0, 25.0), ("running", 25.0, 25.0), ("queued", 50.0, 50.0)
    ]  # fmt: skip
    assert progress.build_bar(Counter()).summary == "no tasks"
