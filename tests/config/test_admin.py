"""The admin: a triage window. It shows everything, edits nothing, and acts through the verbs."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

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
from ledger.states import InstructionState
from retries.models import Escalation, FailurePattern
from tests.conftest import Api
from tests.dashboard.worked import make_plan
from tests.factories import NOW, make_instruction, make_token, pull
from tests.retries.escalations.test_escalations import ignored
from tests.retries.test_tasks_flow import attempt_of, claim, fail, make_task

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
def mara() -> Client:
    client = Client()
    client.force_login(User.objects.create_user("mara", is_staff=True))
    return client


def path(model: Any, rest: str = "") -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/{rest}"


def act(client: Client, model: Any, action: str, *rows: Any, **more: str) -> str:
    data = {"action": action, "_selected_action": [str(row.pk) for row in rows]} | more
    response = client.post(path(model), data, follow=True)
    assert response.status_code == 200
    return " ".join(str(message) for message in response.context["messages"])


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


@pytest.mark.parametrize("model", MODELS)
def test_a_list_takes_a_fixed_number_of_queries(
    mara: Client, agent: Agent, model: Any, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        ignored(agent, f"thing {number}")
    with django_assert_max_num_queries(15):
        mara.get(path(model))


def test_it_is_for_staff_alone() -> None:
    client = Client()
    door = client.get("/admin/", follow=True).redirect_chain[-1][0]
    assert door.startswith("/sign-in/")
    client.force_login(User.objects.create_user("guest"))
    assert client.get(path(Agent)).status_code in (302, 403)


def test_agents_are_paused_and_reset_by_the_user(mara: Client, agent: Agent) -> None:
    make_instruction(InstructionState.DELIVERED, agent=agent)
    assert act(mara, Agent, "pause", agent) == "1 paused."
    assert act(mara, Agent, "pause", agent) == "None paused."
    assert act(mara, Agent, "go_on", agent) == "1 go on."
    assert act(mara, Agent, "limit", agent, concurrency="2") == "1 limited."
    assert Agent.objects.get().concurrency == 2
    for wrong in ("0", "1001", "²", "two"):
        assert "from 1 to 1000" in act(mara, Agent, "limit", agent, concurrency=wrong)
        assert Agent.objects.get().concurrency == 2
    assert act(mara, Agent, "limit", agent, concurrency="") == "1 freed of their limit."
    assert act(mara, Agent, "brief", agent, system_text="Mind the tests") == "1 briefed."
    assert Agent.objects.get().system_text == "Mind the tests"
    assert "at most 16,000" in act(mara, Agent, "brief", agent, system_text="x" * 16_001)
    assert act(mara, Agent, "reset", agent) == "1 instructions cancelled."
    told = Event.objects.filter(actor_type="user", actor_name="mara").values_list("kind", flat=True)
    assert set(told) == {
        "agent.paused",
        "agent.resumed",
        "agent.limited",
        "agent.briefed",
        "agent.reset",
        "instruction.cancelled",
    }


def test_an_agent_is_made_known(mara: Client, project: Project) -> None:
    def add(name: str) -> Any:
        form = {"project": project.pk, "name": name}
        return mara.post("/admin/ledger/agent/add/", form)

    assert add("coder").status_code == 302
    event = Event.objects.get(kind="agent.registered")
    assert (event.subject_id, event.actor_name) == (Agent.objects.get().pk, "mara")
    assert "already exists" in add("coder").content.decode()
    assert "no invisible characters" in add("cod\u200ber").content.decode()
    assert Agent.objects.count() == 1


def test_a_project_is_made_and_journalled(mara: Client) -> None:
    mara.post("/admin/ledger/project/add/", {"name": "blue"})
    event = Event.objects.get(kind="project.created")
    assert (event.actor_type, event.actor_name, event.data) == ("user", "mara", {"name": "blue"})
    assert event.subject_id == Project.objects.get(name="blue").pk


def test_a_token_is_made_shown_once_and_revoked(mara: Client, project: Project) -> None:
    form = {"kind": "operator", "project": str(project.pk), "agent": "", "name": "mine"}
    page = mara.post(path(Token, "add/"), form, follow=True)
    secret = str(next(iter(page.context["messages"]))).rsplit(" ", 1)[1]
    assert Api(secret)("GET", "/me").body["name"] == "mine"
    assert secret not in mara.get(path(Token)).content.decode()
    assert act(mara, Token, "revoke", *Token.objects.all()) == "1 revoked."
    assert Api(secret)("GET", "/me").status_code == 401
    assert Event.objects.get(kind="token.revoked").actor_name == "mara"


def test_instructions_are_acknowledged_and_withdrawn(mara: Client, agent: Agent) -> None:
    rows = [make_instruction(state, agent=agent) for state in InstructionState]
    assert act(mara, Instruction, "acknowledge", rows[1]) == "1 acknowledged."
    assert act(mara, Instruction, "withdraw", *rows) == "1 withdrawn."
    assert set(Instruction.objects.values_list("state", flat=True)) == {
        InstructionState.ACKNOWLEDGED,
        InstructionState.FAILED,
        InstructionState.CANCELLED,
    }


def test_tasks_are_retried_skipped_and_aborted(mara: Client, agent: Agent) -> None:
    waits, stops = make_task(agent), make_task(agent)
    retried = make_task(agent, priority=1)
    fail(agent, attempt_of(claim(agent)), now=timezone.now(), retry_after_s=600)
    assert "1 retried now" in act(mara, Task, "retry_now", Task.objects.get(pk=retried))
    assert "1 skipped" in act(mara, Task, "skip", Task.objects.get(pk=waits))
    last = Task.objects.get(pk=stops)
    assert act(mara, Task, "abort", last, confirmed="yes") == "1 stopped: 1 task aborted."
    assert act(mara, Task, "abort", last, confirmed="yes") == "None stopped."
    assert Event.objects.filter(actor_name="mara").count() == 3


@pytest.mark.parametrize(("action", "as_"), [("replay", "replayed"), ("dismiss", "dismissed")])
def test_dead_letters_are_settled(mara: Client, agent: Agent, action: str, as_: str) -> None:
    make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    letter = DeadLetter.objects.get()
    assert f"1 {as_}" in act(mara, DeadLetter, action, letter)
    assert f"None {as_}" in act(mara, DeadLetter, action, letter)
    letter.refresh_from_db()
    assert (letter.closed_as, letter.closed_by_name) == (as_, "mara")


def test_patterns_are_settled_and_tried_again(mara: Client, agent: Agent) -> None:
    make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    pattern = FailurePattern.objects.get()
    assert "1 resolved" in act(mara, FailurePattern, "resolve", pattern)
    assert "None ignored" in act(mara, FailurePattern, "ignore", pattern)
    assert "1 opened again" in act(mara, FailurePattern, "reopen", pattern)
    assert "1 ignored" in act(mara, FailurePattern, "ignore", pattern)
    assert "1 tried again" in act(mara, FailurePattern, "retry", pattern)
    assert DeadLetter.objects.get().closed_as == "replayed"


def test_breakers_are_tripped_and_reset(mara: Client, agent: Agent) -> None:
    assert "1 tripped" in act(mara, Agent, "trip_breaker", agent)
    row = Breaker.objects.get()
    assert "None tripped" in act(mara, Breaker, "trip_breaker", row)
    assert claim(agent, now=timezone.now()).reason == "breaker_open"
    assert "1 reset" in act(mara, Breaker, "reset_breaker", row)
    assert claim(agent, now=timezone.now()).reason == "no_task"
    assert Event.objects.filter(actor_name="mara", kind__startswith="agent.breaker").count() == 2


def test_an_escalation_is_answered_once(mara: Client, agent: Agent) -> None:
    escalation = ignored(agent)
    assert "needs text" in act(mara, Escalation, "fix", escalation)
    assert act(mara, Escalation, "fix", escalation, fix="Use v2") == "1 answered."
    assert pull(agent) == ["Use v2"]
    escalation.refresh_from_db()
    assert (escalation.channel, escalation.answered_by_name) == ("admin", "mara")
    assert "mara answered 'fix'" in act(mara, Escalation, "skip", escalation)


@pytest.mark.parametrize("action", ["retry", "skip", "abort"])
def test_the_other_answers(mara: Client, agent: Agent, action: str) -> None:
    escalation = ignored(agent)
    assert act(mara, Escalation, action, escalation) == "1 answered."
    assert Escalation.objects.get().action == action


def test_every_model_of_ours_is_there() -> None:
    assert set(MODELS) <= set(admin.site._registry)


def test_plans_are_paused_resumed_and_aborted(mara: Client, agent: Agent) -> None:
    plan, (id,) = make_plan("03-01", [("One", [])], agent=agent, now=NOW)
    assert "1 paused" in act(mara, Plan, "pause", plan)
    assert "None paused" in act(mara, Plan, "pause", plan)
    assert "1 resumed" in act(mara, Plan, "resume", plan)
    assert act(mara, Plan, "abort", plan, confirmed="yes") == "1 aborted, 1 task aborted."
    assert Task.objects.get(pk=id).state == "aborted"
    assert act(mara, Plan, "abort", plan, confirmed="yes") == "None aborted."


@pytest.mark.parametrize("model", [Plan, Task])
@pytest.mark.parametrize("every", ["", "1"])
def test_an_abort_is_asked_first_with_the_counts_of_what_it_stops(
    mara: Client, agent: Agent, model: Any, every: str
) -> None:
    """As the pages ask it; what is posted then is that form, and it tells what really stopped."""
    made = [("One", []), ("Two", []), ("Three", []), ("Four", [1])]
    plan, ids = make_plan("03-01", made, agent=agent, now=NOW)
    other = make_task(agent, title="Elsewhere", needs=[ids[1]])
    fail(agent, attempt_of(claim(agent, task=ids[0])), now=NOW)
    claim(agent, task=ids[1])
    rows = [plan] if model is Plan else list(Task.objects.filter(plan=plan))
    chosen = [str(row.pk) for row in rows[: 1 if every else None]]
    form = {"action": "abort", "_selected_action": chosen, "select_across": every or "0"}
    asked = mara.post(path(model), form).content.decode()
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", asked))
    many = 4 if every and model is Task else 3
    assert f"{many} tasks that wait are aborted. 1 task that runs is told to stop:" in text
    assert "1 open question is withdrawn." in text and "This can’t be taken back." in text
    stays = "1 other task that depends on what is stopped stays blocked."
    assert (stays in text) == (many == 3)
    assert not Event.objects.filter(actor_name="mara").exists()
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', asked)
    data: dict[str, list[str]] = {}
    for name, value in fields:
        data.setdefault(name, []).append(value)
    done = mara.post(path(model), data, follow=True)
    said = [str(message) for message in done.context["messages"]]
    head = "1 aborted, " if model is Plan else f"{many + 1} stopped: "
    assert said == [f"{head}{many} tasks aborted, 1 told to stop."]
    assert (Task.objects.get(pk=other).state == "aborted") == (many == 4)
