"""The admin's pages of the ledger: they show everything and act only through verbs."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from ledger.models import Agent, Event, Instruction, Project, StandingInstruction, Token
from ledger.states import InstructionState
from tests.admin_pages import act, asked, path, sure
from tests.admin_pages import mara as mara
from tests.conftest import Api
from tests.factories import make_instruction
from tests.ledger.standing_instructions.rules import make_rule

pytestmark = pytest.mark.django_db


def test_the_admin_is_for_staff_only() -> None:
    client = Client()
    door = client.get("/admin/", follow=True).redirect_chain[-1][0]
    assert door.startswith("/sign-in/")
    client.force_login(User.objects.create_user("guest"))
    assert client.get(path(Agent)).status_code in (302, 403)


def test_agents_are_paused_and_reset_by_the_user(mara: Client, agent: Agent) -> None:
    make_instruction(InstructionState.DELIVERED, agent=agent)
    assert act(mara, Agent, "pause", agent) == "1 paused."
    assert act(mara, Agent, "pause", agent) == "None paused."
    assert act(mara, Agent, "resume", agent) == "1 resumed."
    assert act(mara, Agent, "limit", agent, concurrency="2") == "1 limited."
    assert Agent.objects.get().concurrency == 2
    for wrong in ("0", "1001", "²", "two"):
        assert "from 1 to 1000" in act(mara, Agent, "limit", agent, concurrency=wrong)
        assert Agent.objects.get().concurrency == 2
    assert act(mara, Agent, "limit", agent, concurrency="") == "1 no longer limited."
    assert act(mara, Agent, "brief", agent, system_text="Mind the tests") == "1 briefed."
    assert Agent.objects.get().system_text == "Mind the tests"
    assert "at most 16,000" in act(mara, Agent, "brief", agent, system_text="x" * 16_001)
    assert asked(mara, Agent, "brief", agent, system_text="New") == [
        "The system text of 1 agent will be replaced."
    ]
    assert asked(mara, Agent, "reset", agent) == [
        "1 pending instruction of 1 agent will be cancelled."
    ]
    assert Instruction.objects.get().state == InstructionState.DELIVERED
    assert sure(mara, Agent, "reset", agent) == "1 instructions cancelled."
    assert act(mara, Agent, "reset", agent).startswith("This would change nothing: ")
    told = Event.objects.filter(actor_type="user", actor_name="mara").values_list("kind", flat=True)
    assert set(told) == {
        "agent.paused",
        "agent.resumed",
        "agent.limited",
        "agent.briefed",
        "agent.reset",
        "instruction.cancelled",
    }


def test_an_agent_is_registered(mara: Client, project: Project) -> None:
    def add(name: str) -> Any:
        form = {"project": project.pk, "name": name}
        return mara.post("/admin/ledger/agent/add/", form)

    assert add("coder").status_code == 302
    event = Event.objects.get(kind="agent.registered")
    assert (event.subject_id, event.actor_name) == (Agent.objects.get().pk, "mara")
    assert "already exists" in add("coder").content.decode()
    assert "no invisible characters" in add("cod\u200ber").content.decode()
    assert Agent.objects.count() == 1


def test_a_project_is_created_and_journaled(mara: Client) -> None:
    mara.post("/admin/ledger/project/add/", {"name": "blue"})
    event = Event.objects.get(kind="project.created")
    assert (event.actor_type, event.actor_name, event.data) == ("user", "mara", {"name": "blue"})
    assert event.subject_id == Project.objects.get(name="blue").pk


def test_a_token_is_created_shown_once_and_revoked(mara: Client, project: Project) -> None:
    form = {"kind": "operator", "project": str(project.pk), "agent": "", "name": "mine"}
    page = mara.post(path(Token, "add/"), form, follow=True)
    secret = str(next(iter(page.context["messages"]))).rsplit(" ", 1)[1]
    assert Api(secret)("GET", "/me").body["name"] == "mine"
    assert secret not in mara.get(path(Token)).content.decode()
    every = Token.objects.all()
    assert asked(mara, Token, "revoke", *every) == ["1 token will stop working at once."]
    assert sure(mara, Token, "revoke", *every) == "1 revoked."
    assert Api(secret)("GET", "/me").status_code == 401
    assert Event.objects.get(kind="token.revoked").actor_name == "mara"


def test_instructions_are_acknowledged_and_withdrawn(mara: Client, agent: Agent) -> None:
    rows = [make_instruction(state, agent=agent) for state in InstructionState]
    assert asked(mara, Instruction, "acknowledge", *rows) == [
        "2 instructions will count as acknowledged and not be sent again."
    ]
    assert sure(mara, Instruction, "acknowledge", rows[1]) == "1 acknowledged."
    assert asked(mara, Instruction, "cancel", *rows) == [
        "1 instruction will not be delivered again."
    ]
    assert sure(mara, Instruction, "cancel", *rows) == "1 cancelled."
    assert set(Instruction.objects.values_list("state", flat=True)) == {
        InstructionState.ACKNOWLEDGED,
        InstructionState.FAILED,
        InstructionState.CANCELLED,
    }


@pytest.mark.parametrize("model", [Token, Agent, Project])
def test_staff_without_a_permission_can_do_nothing(project: Project, model: Any) -> None:
    client = Client()
    user = User.objects.create_user("eve", is_staff=True)
    client.force_login(user)
    form = {"kind": "operator", "project": project.pk, "name": "eve"}
    before = model.objects.count()
    assert client.get(path(model)).status_code == 403
    assert client.post(path(model, "add/"), form).status_code == 403
    assert model.objects.count() == before


def test_staff_may_do_what_their_permissions_say(agent: Agent) -> None:
    client = Client()
    user = User.objects.create_user("eve", is_staff=True)
    client.force_login(user)
    user.user_permissions.add(Permission.objects.get(codename="view_agent"))
    assert client.get(path(Agent)).status_code == 200
    act(client, Agent, "pause", agent)
    assert not Agent.objects.get().paused
    assert client.get(path(Agent, "add/")).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="change_agent"))
    assert act(client, Agent, "pause", agent) == "1 paused."
    form = {"kind": "operator", "project": agent.project_id, "name": "eve"}
    assert client.post(path(Token, "add/"), form).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="add_token"))
    client.post(path(Token, "add/"), form)
    assert Token.objects.filter(name="eve").exists()


def test_rules_are_paused_resumed_and_retired(mara: Client, agent: Agent) -> None:
    rule = make_rule()
    assert act(mara, StandingInstruction, "pause", rule) == "1 paused."
    assert act(mara, StandingInstruction, "pause", rule) == "None paused."
    assert act(mara, StandingInstruction, "resume", rule) == "1 switched on."
    assert asked(mara, StandingInstruction, "retire", rule) == ["1 rule will end permanently."]
    assert sure(mara, StandingInstruction, "retire", rule) == "1 retired."
    assert act(mara, StandingInstruction, "retire", rule).startswith("This would change nothing: ")
    assert "Run the tests" in mara.get(path(StandingInstruction)).content.decode()
    told = Event.objects.filter(subject_id=rule.id, actor_name="mara").order_by("id")
    assert list(told.values_list("kind", "to_state")) == [
        ("standing_instruction.paused", "paused"),
        ("standing_instruction.resumed", "active"),
        ("standing_instruction.retired", "retired"),
    ]
