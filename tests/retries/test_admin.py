"""The admin's pages of retries, and what holds for every page of the admin."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ledger.journal import Actor, Stamp
from ledger.models import (
    Agent,
    Attempt,
    Breaker,
    ClockRun,
    DeadLetter,
    Event,
    Failure,
    Instruction,
    Plan,
    Project,
    Task,
    TaskHistory,
    Token,
)
from ledger.tasks.spec import Backoff
from retries.failures.fixes import reading as fixes
from retries.failures.fixes import verdicts as fix_verdicts
from retries.models import Escalation, FailurePattern, FixVerdict, RetryPolicy
from retries.states import Verdict
from tests.admin_pages import act, asked, path, sure
from tests.admin_pages import mara as mara
from tests.dashboard.seen import html
from tests.dashboard.worked import make_plan
from tests.factories import NOW, make_agent, make_instruction, make_token, pull
from tests.retries.escalations.test_answering import ignored
from tests.retries.failures.test_suggestions import fixed
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db

MODELS = [
    Agent,
    Attempt,
    Breaker,
    ClockRun,
    DeadLetter,
    Escalation,
    Event,
    Failure,
    FailurePattern,
    Instruction,
    Plan,
    Project,
    Task,
    TaskHistory,
    Token,
]


@pytest.fixture
def world(agent: Agent) -> None:
    ignored(agent)
    make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    make_plan("03-01", [("One", [])], agent=agent, now=NOW)
    make_token("operator")
    ClockRun.objects.create(name="idle_check", last_run_at=NOW)


@pytest.mark.parametrize("model", MODELS)
def test_every_list_and_row_can_be_read_and_searched(mara: Client, world: None, model: Any) -> None:
    row = model.objects.first()
    assert mara.get(path(model)).status_code == 200
    assert mara.get(path(model, f"{row.pk}/change/")).status_code == 200
    for search in ("coder", str(row.pk), "a\x00b", "<script>"):
        assert mara.get(path(model), {"q": search}).status_code == 200


@pytest.mark.parametrize("model", MODELS)
def test_nothing_can_be_edited_or_deleted(mara: Client, world: None, model: Any) -> None:
    row = model.objects.first()
    assert mara.post(path(model, f"{row.pk}/change/"), {}).status_code == 403
    assert mara.post(path(model, f"{row.pk}/delete/"), {"post": "yes"}).status_code == 403
    assert "delete_selected" not in mara.get(path(model)).content.decode()
    assert model.objects.filter(pk=row.pk).exists()


def test_lists_and_rows_take_a_fixed_number_of_queries(mara: Client, agent: Agent) -> None:
    """Whatever they list and however much belongs to a row: ten of each, and then thirty."""
    make_token("operator")
    ClockRun.objects.create(name="idle_check", last_run_at=NOW)
    first = make_task(agent, max_attempts=99, backoff=Backoff(base_delay_ms=0))
    words = iter("abcdefghijklmnopqrstuvwxyz" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ")

    def more(count: int) -> None:
        for _ in range(count):
            word = next(words)
            other = make_agent(f"agent {word}")
            ignored(other, f"thing {word}")
            task = make_task(other, max_attempts=1, title=word)
            fail(other, attempt_of(claim(other, task=task)), now=NOW, message=f"{word} " * 9)
            fail(agent, attempt_of(claim(agent, task=first)), now=NOW, type="architect_rejected")
            make_plan(f"plan-{word}", [("One", []), ("Two", [])], agent=other, now=NOW)

    def count_all() -> dict[str, int]:
        counts = {}
        for model in MODELS:
            row = first if model is Task else model.objects.order_by("pk").first().pk
            for place in ("", f"{row}/change/"):
                with CaptureQueriesContext(connection) as found:
                    assert mara.get(path(model, place)).status_code == 200
                counts[f"{model.__name__} {'row' if place else 'list'}"] = len(found)
        return counts

    more(10)
    few = count_all()
    more(20)
    many = count_all()
    assert {name: (few[name], count) for name, count in many.items() if count > few[name]} == {}
    assert max(many[name] for name in many if name.endswith("list")) <= 15


def test_tasks_are_retried_skipped_and_aborted(mara: Client, agent: Agent) -> None:
    waits, stops = make_task(agent), make_task(agent)
    retried = make_task(agent, priority=1)
    fail(agent, attempt_of(claim(agent)), now=timezone.now(), retry_after_s=600)
    assert "1 retried now" in act(mara, Task, "retry_now", Task.objects.get(pk=retried))
    assert "1 skipped" in sure(mara, Task, "skip", Task.objects.get(pk=waits))
    last = Task.objects.get(pk=stops)
    assert sure(mara, Task, "abort", last) == "1 stopped: 1 task aborted."
    assert sure(mara, Task, "abort", last) == "None stopped."
    assert Event.objects.filter(actor_name="mara").count() == 3


@pytest.mark.parametrize(("action", "as_"), [("replay", "replayed"), ("dismiss", "dismissed")])
def test_dead_letters_are_settled(mara: Client, agent: Agent, action: str, as_: str) -> None:
    make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    letter = DeadLetter.objects.get()
    (effect,) = asked(mara, DeadLetter, action, letter)
    assert effect.startswith("1 ") and DeadLetter.objects.open().exists()
    assert f"1 {as_}" in sure(mara, DeadLetter, action, letter)
    assert f"None {as_}" in sure(mara, DeadLetter, action, letter)
    assert act(mara, DeadLetter, action, letter).startswith("This would change nothing: ")
    letter.refresh_from_db()
    assert (letter.closed_as, letter.closed_by_name) == (as_, "mara")


def test_patterns_are_moved_and_retried(mara: Client, agent: Agent) -> None:
    make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    pattern = FailurePattern.objects.get()
    assert "1 resolved" in act(mara, FailurePattern, "resolve", pattern)
    assert "None ignored" in act(mara, FailurePattern, "ignore", pattern)
    assert "1 reopened" in act(mara, FailurePattern, "reopen", pattern)
    assert "1 ignored" in act(mara, FailurePattern, "ignore", pattern)
    assert asked(mara, FailurePattern, "retry", pattern) == ["1 dead letter will be replayed."]
    assert "1 retried" in sure(mara, FailurePattern, "retry", pattern)
    assert DeadLetter.objects.get().closed_as == "replayed"


def test_breakers_are_tripped_and_reset(mara: Client, agent: Agent) -> None:
    assert "1 tripped" in act(mara, Agent, "trip_breaker", agent)
    row = Breaker.objects.get()
    assert "None tripped" in act(mara, Breaker, "trip_breaker", row)
    assert claim(agent, now=timezone.now()).reason == "breaker_open"
    assert "1 kept open" in act(mara, Agent, "keep_breaker_open", agent)
    assert "None kept open" in act(mara, Breaker, "keep_breaker_open", row)
    effect = "1 breaker will close and forget its failures."
    assert asked(mara, Breaker, "reset_breaker", row) == [effect]
    assert asked(mara, Agent, "reset_breaker", agent) == [effect]
    assert "1 reset" in sure(mara, Breaker, "reset_breaker", row)
    assert claim(agent, now=timezone.now()).reason == "no_task"
    assert Event.objects.filter(actor_name="mara", kind__startswith="agent.breaker").count() == 3


def test_an_escalation_is_answered_once(mara: Client, agent: Agent) -> None:
    escalation = ignored(agent)
    assert "needs text" in act(mara, Escalation, "fix", escalation)
    assert asked(mara, Escalation, "fix", escalation, fix="Use v2") == [
        "1 instruction will be sent again with your text."
    ]
    assert sure(mara, Escalation, "fix", escalation, fix="Use v2") == "1 answered."
    assert pull(agent) == ["Use v2"]
    escalation.refresh_from_db()
    assert (escalation.channel, escalation.answered_by_name) == ("admin", "mara")
    assert "resolved: fix by mara" in html(mara.get(f"{path(Escalation)}?state=any"))
    assert "mara answered 'fix'" in act(mara, Escalation, "skip", escalation)


@pytest.mark.parametrize("action", ["retry", "skip", "abort"])
def test_each_answer_is_given(mara: Client, agent: Agent, action: str) -> None:
    escalation = ignored(agent)
    (effect,) = asked(mara, Escalation, action, escalation)
    assert effect.startswith("1 instruction will ")
    assert Escalation.objects.get().action is None
    done = "1 skipped." if action == "skip" else "1 answered."
    assert sure(mara, Escalation, action, escalation) == done
    assert Escalation.objects.get().action == action


def test_every_model_has_a_page() -> None:
    assert set(MODELS) <= set(admin.site._registry)


def test_plans_are_paused_resumed_and_aborted(mara: Client, agent: Agent) -> None:
    plan, (id,) = make_plan("03-01", [("One", [])], agent=agent, now=NOW)
    assert "1 paused" in act(mara, Plan, "pause", plan)
    assert "None paused" in act(mara, Plan, "pause", plan)
    assert "1 resumed" in act(mara, Plan, "resume", plan)
    assert sure(mara, Plan, "abort", plan) == "1 aborted, 1 task aborted."
    assert Task.objects.get(pk=id).state == "aborted"
    assert sure(mara, Plan, "abort", plan) == "None aborted."


@pytest.mark.parametrize("model", [Plan, Task])
@pytest.mark.parametrize("every", ["", "1"])
def test_an_abort_shows_its_effects_before_and_after(
    mara: Client, agent: Agent, model: Any, every: str
) -> None:
    """The confirmation is the form on that page, and its message counts what was stopped."""
    made = [("One", []), ("Two", []), ("Three", []), ("Four", [1])]
    plan, ids = make_plan("03-01", made, agent=agent, now=NOW)
    other = make_task(agent, title="Elsewhere", needs=[ids[1]])
    fail(agent, attempt_of(claim(agent, task=ids[0])), now=NOW)
    claim(agent, task=ids[1])
    rows = [plan] if model is Plan else list(Task.objects.filter(plan=plan))
    chosen = [str(row.pk) for row in rows[: 1 if every else None]]
    form = {"action": "abort", "_selected_action": chosen, "select_across": every or "0"}
    page = mara.post(path(model), form).content.decode()
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page))
    many = 4 if every and model is Task else 3
    assert f"{many} waiting tasks will be aborted. 1 running task will be told to stop." in text
    assert "1 open question will be withdrawn." in text and "This can’t be undone." in text
    stays = "1 other task that depends on these will stay blocked."
    assert (stays in text) == (many == 3)
    assert not Event.objects.filter(actor_name="mara").exists()
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page)
    data: dict[str, list[str]] = {}
    for name, value in fields:
        data.setdefault(name, []).append(value)
    done = mara.post(path(model), data, follow=True)
    said = [str(message) for message in done.context["messages"]]
    head = "1 aborted, " if model is Plan else f"{many + 1} stopped: "
    assert said == [f"{head}{many} tasks aborted, 1 told to stop."]
    assert (Task.objects.get(pk=other).state == "aborted") == (many == 4)


# what a person can take back: by its opposite, or because it only hastens what comes anyway
REVERSIBLE = {
    *("pause", "resume", "limit", "set_account", "trip_breaker", "keep_breaker_open"),
    *("resolve", "ignore", "reopen"),
    *("retry_now", "send_again", "undo"),
}


@pytest.mark.parametrize("model", MODELS)
def test_an_action_that_can_t_be_undone_asks_first(model: Any) -> None:
    page = admin.site._registry[model]
    for name in page.actions or ():
        assert hasattr(getattr(page, str(name)), "__wrapped__") == (name not in REVERSIBLE), name


def test_an_abort_of_an_escalation_says_that_it_stops_the_plan(mara: Client, agent: Agent) -> None:
    plan, ids = make_plan("03-01", [("One", []), ("Two", []), ("Three", [1])], agent=agent, now=NOW)
    fail(agent, attempt_of(claim(agent, task=ids[0])), now=NOW, code="impossible")
    claim(agent, task=ids[1])
    instruction = ignored(agent)
    make_instruction(agent=agent, content="Later")
    rows = Escalation.objects.open()
    assert asked(mara, Escalation, "abort", *rows) == [
        "1 plan will be aborted with all its tasks.",
        "2 waiting tasks will be aborted.",
        "1 running task will be told to stop. A running task ends when its agent reports or its "
        "lease expires.",
        "1 instruction will stay failed.",
        "1 pending instruction of 1 agent will be cancelled.",
    ]
    assert asked(mara, Escalation, "skip", *rows, dependents="skip") == [
        "1 task will be skipped.",
        "1 instruction will stay failed, and nothing is sent.",
        "1 task that depends on these will be skipped too, with its own dependents.",
    ]
    assert asked(mara, Escalation, "retry", *rows) == [
        "1 task will get a new round of attempts.",
        "1 instruction will be sent again with the same text.",
    ]
    assert rows.count() == 2 and not Event.objects.filter(actor_name="mara").exists()
    assert sure(mara, Escalation, "abort", *rows) == "2 answered."
    assert Plan.objects.get(pk=plan.pk).state == "aborted"
    instruction.refresh_from_db()
    assert instruction.cancelled == 1


def test_a_skip_asks_with_its_choice_and_repeats_it(mara: Client, agent: Agent) -> None:
    plan, ids = make_plan(
        "03-01", [("One", []), ("Two", [1]), ("Three", [2])], agent=agent, now=NOW
    )
    first = Task.objects.get(pk=ids[0])
    form = {"action": "skip", "_selected_action": str(first.pk), "dependents": "skip"}
    page = mara.post(path(Task), form).content.decode()
    assert "<h1>Skip?</h1>" in page and 'value="Skip"' in page
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page))
    assert fields.pop("csrfmiddlewaretoken", "")
    assert fields == form | {"confirmed": "yes"}
    assert mara.post(path(Task), fields, follow=True).status_code == 200
    assert set(Task.objects.values_list("state", flat=True)) == {"skipped"}
    assert act(mara, Task, "skip", first).startswith("This would change nothing: ")
    assert "Abort it first" in act(mara, Plan, "restart", plan)
    assert sure(mara, Plan, "abort", plan) == "1 aborted."
    assert asked(mara, Plan, "restart", Plan.objects.get(pk=plan.pk)) == [
        "1 plan will start again.",
        "3 unfinished tasks will run again as new tasks.",
    ]


def test_instructions_are_sent_again(mara: Client, agent: Agent) -> None:
    given_up = ignored(agent)
    rows = [given_up.instruction, make_instruction("delivered", agent=agent, content="Remind")]
    assert act(mara, Instruction, "send_again", *rows) == "2 sent again."
    given_up.refresh_from_db()
    assert (given_up.state, given_up.action, given_up.channel) == ("resolved", "retry", "admin")
    assert set(pull(agent)) == {rows[0].content, "Remind"}
    assert act(mara, Instruction, "send_again", rows[0]) == "None sent again."


def test_policies_are_set_and_journaled(mara: Client, agent: Agent) -> None:
    """Also by a person who may change them; the project of a policy stays as it is."""
    scopes = {"ask_at_once": "all", "obey_waits": "plans", "ask_on_same_failure": "off"}
    mara.post(path(RetryPolicy, "add/"), {"project": str(agent.project_id)} | scopes)
    policy = RetryPolicy.objects.get(project=agent.project)
    assert (policy.ask_at_once, policy.obey_waits) == ("all", "plans")
    page = path(RetryPolicy, f"{policy.pk}/change/")
    assert mara.get(page).status_code == mara.get(path(RetryPolicy)).status_code == 200
    assert mara.post(page, scopes | {"ask_on_same_failure": "never"}).status_code == 200
    assert mara.post(page, scopes | {"ask_on_same_failure": "all"}).status_code == 302
    events = Event.objects.filter(kind="project.policies_changed").order_by("id")
    assert [event.data for event in events] == [
        {"ask_at_once": "all", "obey_waits": "plans"},
        {"ask_on_same_failure": "all"},
    ]
    assert events[0].actor_name == "mara" and events[0].project_id == agent.project_id
    assert mara.post(path(RetryPolicy, f"{policy.pk}/delete/"), {"post": "yes"}).status_code == 403


def test_verdicts_about_fixes_change_in_the_admin(mara: Client, agent: Agent) -> None:
    fixed(agent, "Run npm ci", works=True, now=NOW)
    pattern = FailurePattern.objects.get(template__startswith="Cannot")
    (fix,) = fixes.list_learned_fixes(pattern.pk)
    stamp = Stamp(Actor("user", "1", "jonas"), NOW)
    fix_verdicts.judge(
        pattern, signature=fix.signature, key=fix.key, verdict=Verdict.PROMOTED, stamp=stamp
    )
    row = FixVerdict.objects.get()
    assert mara.get(path(FixVerdict)).status_code == 200
    assert act(mara, FixVerdict, "promote", row) == "None promoted."
    assert act(mara, FixVerdict, "retire", row) == "1 retired."
    assert fixes.list_learned_fixes(pattern.pk)[0].is_retired_by_person
    assert act(mara, FixVerdict, "reset", row) == "1 reset."
    assert not FixVerdict.objects.exists()
    last = Event.objects.filter(kind="pattern.fix_reset").get()
    assert last.actor_name == "mara"
