"""Actions on many rows from the lists: the question, the operation's page, undo and stop."""

import re
from datetime import datetime, timedelta
from html import unescape

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, DeadLetter, Instruction, Task
from ledger.states import TaskState
from retries.models import Escalation, Operation
from retries.operations.running import run_batch, take
from retries.tasks import actions as task_actions
from tests.dashboard.conftest import PART
from tests.dashboard.seen import html
from tests.dashboard.worked import buried, enqueued, make_task
from tests.factories import make_agent, make_instruction, make_project, send
from tests.retries.operations.worlds import LATER, run

HOSTILE = "<script>alert(1)</script> in the title"
NEW = "/operations/new/{}/"


def raw(response: HttpResponse) -> str:
    return " ".join(response.content.decode().split())


def text_of(response: HttpResponse) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", raw(response))).split())


def test_ticked_rows_are_counted_then_changed_and_the_page_tells_the_result(
    agent: Agent, browser: Client, now: datetime
) -> None:
    """The question counts by state, the reason is stored, and refused rows are named with why."""
    before = now - timedelta(minutes=1)
    ids = [enqueued(agent, f"{HOSTILE} {n}", now=before) for n in range(26)]
    done = make_task(TaskState.DONE, agent=agent, now=before)
    form = {"id": [str(id) for id in [*ids, done.pk]], "next": "/tasks/?q=agent:coder"}
    asked = browser.post(NEW.format("task.abort"), form)
    said = text_of(asked)
    assert "Abort 27 selected tasks?" in said and "26 tasks will be aborted." in said
    assert "Done 1 left as it is" in said and not Operation.objects.exists()
    assert 'name="next" value="/tasks/?q=agent%3Acoder"' in html(asked)

    answer = form | {"confirmed": "yes", "reason": "wrong <b>branch</b>"}
    started = browser.post(NEW.format("task.abort"), answer)
    operation = Operation.objects.get()
    assert started.headers["Location"] == f"/operations/{operation.pk}/"
    assert (operation.reason, operation.matching, operation.total) == (
        "wrong <b>branch</b>",
        27,
        26,
    )
    task_actions.skip([ids[3]], stamp=Stamp(SYSTEM, now))
    waiting = browser.get(f"/operations/{operation.pk}/")
    assert "Aborting 26 tasks" in text_of(waiting) and f"{operation.pk}/undo/" in html(waiting)

    run(operation, now=now)
    page = browser.get(f"/operations/{operation.pk}/")
    said = text_of(page)
    assert "Aborted 25 of 26 tasks" in said and "State is now “skipped”" in said
    assert "wrong <b>branch</b>" in said and HOSTILE in said and "<script>alert" not in raw(page)
    assert (
        "mara started an operation: abort 26 tasks" in said and "25 tasks aborted, 1 left" in said
    )
    assert "Aborted 25 of 26 tasks" in text_of(browser.get("/operations/"))
    assert "operation.completed" in html(browser.get("/activity/?q=kind:operation"))


def test_a_few_rows_bring_a_message_with_undo(agent: Agent, browser: Client, now: datetime) -> None:
    id = enqueued(agent, now=now)
    form = {"id": [str(id)], "next": "/tasks/", "confirmed": "yes"}
    page = browser.post(NEW.format("task.abort"), form, follow=True)
    assert page.redirect_chain == [("/tasks/", 302)]
    operation = Operation.objects.get()
    assert "1 task will be aborted in 10 s." in text_of(page)
    assert f'action="/operations/{operation.pk}/undo/"' in html(page)
    toast = html(page)[html(page).index('data-shown-for="10"') :]
    assert 'data-key="z">Undo' in toast and f'href="/operations/{operation.pk}/">Follow' in toast
    undone = browser.post(f"/operations/{operation.pk}/undo/", {"next": "/tasks/"}, follow=True)
    assert "Undone. No task was changed." in text_of(undone)
    run(operation, now=now)
    assert Task.objects.get(pk=id).state == "queued"
    again = browser.post(f"/operations/{operation.pk}/undo/", follow=True)
    assert "can't be undone any more" in text_of(again)


@pytest.mark.parametrize("seconds", [0, 45])
def test_the_message_offers_undo_as_long_as_it_is_possible(
    seconds: int, agent: Agent, browser: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(settings.TENFOUR, "UNDO_SECONDS", seconds)
    form = {"id": [str(enqueued(agent, now=now))], "next": "/tasks/", "confirmed": "yes"}
    page = html(browser.post(NEW.format("task.abort"), form, follow=True))
    operation = Operation.objects.get()
    assert (f"/operations/{operation.pk}/undo/" in page) == bool(seconds)
    assert f'data-shown-for="{seconds or 10}"' in page
    assert f'href="/operations/{operation.pk}/">Follow' in page


def test_everything_matching_is_a_query_with_a_cut_off_and_no_list_of_ids(
    agent: Agent, browser: Client, now: datetime
) -> None:
    """Rows of other agents, and rows created after the count, are not part of it."""
    other = make_agent("tester")
    before = now - timedelta(minutes=5)
    for n in range(45):  # more than a page shows
        enqueued(agent, f"Task {n}", now=before)
    enqueued(other, "Not this one", now=before)
    page = html(browser.get("/tasks/?q=agent:coder"))
    bar = page[page.index('id="bulk-form"') :]
    assert 'name="matching" value="yes"' in bar and 'name="q" value="agent:coder"' in bar
    form = {"matching": "yes", "q": "agent:coder", "next": "/tasks/?q=agent:coder"}
    asked = browser.post(NEW.format("task.abort"), form)
    counted_at = re.search(r'name="counted_at" value="([^"]+)"', html(asked))
    assert counted_at
    form["counted_at"] = counted_at[1]
    assert "45 tasks will be aborted." in text_of(asked) and 'name="id"' not in html(asked)
    later = enqueued(agent, "Later", now=now)
    browser.post(NEW.format("task.abort"), form | {"confirmed": "yes"})
    operation = run(Operation.objects.get(), now=now)
    assert (operation.query, operation.total, operation.changed) == ("agent:coder", 45, 45)
    assert Task.objects.get(pk=later).state == "queued"
    assert Task.objects.filter(agent=other, state="queued").count() == 1
    said = text_of(browser.get(f"/operations/{operation.pk}/"))
    assert "Chosen by agent:coder" in said and "25 of 45 shown" in said


def test_a_running_operation_is_polled_and_can_be_stopped(
    agent: Agent, browser: Client, now: datetime
) -> None:
    for n in range(30):
        enqueued(agent, f"Task {n}", now=now)
    form = {"matching": "yes", "q": "", "confirmed": "yes"}
    browser.post(NEW.format("task.abort"), form)
    operation = Operation.objects.get()
    path = f"/operations/{operation.pk}/"
    take(operation.pk, now=now + LATER)
    run_batch(operation.pk, now=now + LATER)
    page = html(browser.get(path))
    assert "25 of 30" in page
    key = re.search(r'data-since="([^"]+)"', page)
    assert key
    assert browser.get(path, {"since": unescape(key[1])}, headers=PART).status_code == 204
    asked = browser.post(f"{path}stop/")
    assert asked.headers["Location"] == f"{path}?ask=stop"
    assert "5 tasks will be left" in text_of(browser.get(f"{path}?ask=stop"))
    stopped = browser.post(f"{path}stop/", {"confirmed": "yes"}, follow=True)
    assert "Stopped. 25 tasks changed, 5 left as they were." in text_of(stopped)
    assert "mara stopped it." in text_of(browser.get(path))


def test_the_question_names_who_waits_and_takes_options(
    agent: Agent, browser: Client, now: datetime
) -> None:
    blocked = make_task(TaskState.BLOCKED, agent=agent, now=now)
    need = str(blocked.needs.get().need_id)
    asked = browser.post(NEW.format("task.skip"), {"id": [need]})
    assert "1 other task waits for them." in text_of(asked) and 'value="skip"' in html(asked)
    form = {"id": [need], "confirmed": "yes", "dependents": "skip"}
    browser.post(NEW.format("task.skip"), form)
    run(Operation.objects.get(), now=now)
    blocked.refresh_from_db()
    assert blocked.state == "skipped"
    wrong = {"id": [str(blocked.pk)], "confirmed": "yes", "priority": "high"}
    refused = browser.post(NEW.format("task.prioritize"), wrong)
    assert refused.status_code == 422 and "whole number" in text_of(refused)


def test_tasks_are_retried_with_an_instruction(
    agent: Agent, browser: Client, now: datetime
) -> None:
    """The form asks for the text, keeps what was typed, and the operation's page shows it."""
    asked = make_task(TaskState.ESCALATED, "Asked", agent=agent, now=now)
    dead = make_task(TaskState.FAILED, "Dead", agent=agent, now=now)
    form = {"id": [str(asked.pk), str(dead.pk)], "next": "/tasks/"}
    page = browser.post(NEW.format("task.fix"), form)
    said = text_of(page)
    assert "Retry 2 selected tasks with an instruction?" in said
    assert "1 task will be retried with an instruction." in said
    assert "Failed 1 left as it is" in said and "a failed task starts over" in said
    empty = form | {"confirmed": "yes", "fix": " ", "reason": "the <mirror> is back"}
    refused = browser.post(NEW.format("task.fix"), empty)
    assert refused.status_code == 422 and "needs text" in text_of(refused)
    assert 'value="the &lt;mirror&gt; is back"' in raw(refused)
    answer = empty | {"fix": f"Install lxml {HOSTILE}"}
    told = browser.post(NEW.format("task.fix"), answer, follow=True)
    assert "1 task will be retried with an instruction in 10 s." in text_of(told)
    operation = run(Operation.objects.get(), now=now)
    page = browser.get(f"/operations/{operation.pk}/")
    said = text_of(page)
    assert "Retried 1 task with an instruction" in said and f"Install lxml {HOSTILE}" in said
    assert "<script>alert" not in raw(page)
    assert "mara started an operation: retry 1 task with an instruction" in said
    assert Task.objects.get(pk=asked.pk).state == "queued"
    answered = Escalation.objects.get(task=asked)
    assert f"Install lxml {HOSTILE}" in text_of(browser.get(f"/escalations/{answered.pk}/"))


def test_tasks_are_reassigned_to_one_of_the_agents_that_are_counted(
    agent: Agent, browser: Client, now: datetime
) -> None:
    """OPR-7: each agent of the project is offered with its last call and its load."""
    tester, paused = make_agent("tester"), make_agent("<b>paused")
    Agent.objects.filter(pk=paused.pk).update(paused=True)
    make_agent("stranger", project=make_project("elsewhere"))
    ids = [enqueued(agent, now=now) for _ in range(2)] + [enqueued(tester, now=now)]
    form = {"id": [str(id) for id in ids], "next": "/tasks/"}
    page = browser.post(NEW.format("task.reassign"), form)
    said = text_of(page)
    assert "3 tasks can be reassigned." in said and "stranger" not in said
    said = re.sub("[\u2068\u2069]", "", said)  # they isolate the names
    facts = "never checked in · {} waiting · 0 running{}".format
    assert f"coder · {facts(2, ' · takes 1 of 3')}" in said
    assert f"tester · {facts(1, ' · takes 2 of 3')}" in said
    assert f"<b>paused · paused, {facts(0, '')}" in said
    assert "This agent gets no work now." in said
    refused = browser.post(NEW.format("task.reassign"), form | {"confirmed": "yes"})
    assert refused.status_code == 422 and "must not be blank" in text_of(refused)
    wrong = form | {"confirmed": "yes", "agent": "stranger"}
    refused = browser.post(NEW.format("task.reassign"), wrong)
    assert refused.status_code == 422 and "No agent is called “stranger”" in text_of(refused)
    browser.post(NEW.format("task.reassign"), wrong | {"agent": "tester"})
    operation = run(Operation.objects.get(), now=now)
    assert (operation.matching, operation.total, operation.changed) == (3, 2, 2)
    assert Task.objects.filter(agent=tester).count() == 3
    said = text_of(browser.get(f"/operations/{operation.pk}/"))
    assert "Reassigned 2 tasks" in said and "Reassign to tester" in said
    page = browser.get(f"/tasks/{ids[0]}/")
    assert NEW.format("task.reassign") in html(page)
    said = text_of(page)
    assert "mara reassigned it from coder to tester" in said
    assert "reassigned" in text_of(browser.get("/activity/?q=kind:task.changed"))


def test_without_another_agent_no_task_can_be_reassigned(
    agent: Agent, browser: Client, now: datetime
) -> None:
    form = {"id": [str(enqueued(agent, now=now))]}
    page = browser.post(NEW.format("task.reassign"), form)
    assert "there is no other agent in their project" in text_of(page)
    assert 'name="agent"' not in html(page)


def test_only_who_may_answer_escalations_is_offered_an_instruction(
    agent: Agent, now: datetime
) -> None:
    eve = User.objects.create_user("eve", is_staff=True)
    names = ["view_task", "change_task", "add_operation"]
    eve.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(eve)
    task = make_task(TaskState.ESCALATED, agent=agent, now=now)
    page = html(client.get("/tasks/"))
    assert NEW.format("task.retry") in page and NEW.format("task.fix") not in page
    form = {"id": [str(task.pk)], "confirmed": "yes", "fix": "Look again"}
    assert client.post(NEW.format("task.fix"), form).status_code == 403
    assert not Operation.objects.exists()


def test_dead_letters_of_a_group_are_replayed_or_dismissed(
    agent: Agent, browser: Client, now: datetime
) -> None:
    letters = [buried(f"Letter {n}", agent=agent, now=now, error="disk full") for n in range(3)]
    page = html(browser.get("/dead-letters/"))
    assert "Replay all 3…" in page and "Dismiss all 3…" in page
    ids = [str(letter.pk) for letter in letters]
    form = {"id": ids, "confirmed": "yes", "reason": "the disk is gone", "next": "/dead-letters/"}
    browser.post(NEW.format("dead_letter.dismiss"), form)
    run(Operation.objects.get(), now=now)
    closed = DeadLetter.objects.filter(closed_as="dismissed", note="the disk is gone")
    assert closed.count() == 3


def test_instructions_are_ticked_and_cancelled(
    agent: Agent, browser: Client, now: datetime
) -> None:
    row = make_instruction("queued", agent=agent)
    page = html(browser.get("/instructions/"))
    assert f'value="{row.pk}" form="bulk-form"' in page
    form = {"id": [str(row.pk)], "confirmed": "yes"}
    browser.post(NEW.format("instruction.cancel"), form)
    run(Operation.objects.get(), now=now)
    assert Instruction.objects.get().state == "cancelled"


def test_nothing_selected_an_unknown_verb_and_nothing_to_change(
    agent: Agent, browser: Client, now: datetime
) -> None:
    empty = browser.post(NEW.format("task.abort"), {"next": "/tasks/"}, follow=True)
    assert "Select at least one task." in text_of(empty)
    assert browser.post(NEW.format("task.explode")).status_code == 404
    empty = browser.post(NEW.format("escalation.answer"), follow=True)
    assert "Select at least one escalation." in text_of(empty)
    done = make_task(TaskState.DONE, agent=agent, now=now)
    asked = browser.post(NEW.format("task.abort"), {"id": [str(done.pk)]})
    assert "None of them can be aborted now." in text_of(asked)
    forced = browser.post(NEW.format("task.abort"), {"id": [str(done.pk)], "confirmed": "yes"})
    assert forced.status_code == 422 and not Operation.objects.exists()


@pytest.mark.parametrize("verb", ["task.abort", "dead_letter.dismiss", "instruction.cancel"])
def test_a_filter_that_is_not_understood_chooses_nothing(
    agent: Agent, browser: Client, now: datetime, verb: str
) -> None:
    """The list shows all rows below the problem; an action on all of them is not what was meant."""
    task = make_task(agent=agent, now=now)
    make_task("failed", agent=agent, now=now)
    send(agent, now=now)
    for query, problem in (
        ("agnet:codex", "There is no filter “agnet”."),
        ("-agent:codre", "Unknown agent “codre”. Did you mean “agent:coder”?"),
    ):
        form = {"matching": "yes", "q": query, "next": "/tasks/", "confirmed": "yes"}
        answer = browser.post(NEW.format(verb), form, follow=True)
        assert f"Fix the filter first. {problem}" in text_of(answer)
    assert not Operation.objects.exists()
    assert Task.objects.get(pk=task.pk).state == "queued"


@pytest.mark.parametrize("given", [["add_operation"], ["change_task"]])
def test_both_permissions_are_needed(agent: Agent, now: datetime, given: list[str]) -> None:
    eve = User.objects.create_user("eve", is_staff=True)
    eve.user_permissions.set(Permission.objects.filter(codename__in=given))
    client = Client()
    client.force_login(eve)
    id = enqueued(agent, now=now)
    refused = client.post(NEW.format("task.abort"), {"id": [str(id)], "confirmed": "yes"})
    assert refused.status_code == 403 and not Operation.objects.exists()


def test_an_operation_of_another_project_is_not_found(
    agent: Agent, browser: Client, now: datetime
) -> None:
    make_project("elsewhere")
    enqueued(agent, now=now)
    browser.post(NEW.format("task.abort"), {"matching": "yes", "confirmed": "yes"})
    path = f"/operations/{Operation.objects.get().pk}/"
    assert browser.get(f"{path}?project=elsewhere").status_code == 404
    assert "No operations yet" in text_of(browser.get("/operations/?project=elsewhere"))
    assert browser.get(f"{path}?project={agent.project.name}").status_code == 200
