"""What a person does with instructions on the page."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ledger.models import Agent, Event, Instruction
from ledger.states import InstructionState
from retries.models import Escalation
from tests.factories import make_agent, make_instruction, make_project, pull

pytestmark = pytest.mark.django_db


@pytest.fixture
def mara() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("mara"))
    return client


def send(client: Client, **more: Any) -> Any:
    form = {"project": "default", "agent": "coder", "content": "Check", "max_retries": "3"} | more
    return client.post("/instructions/new/", form)


def said(client: Client, path: str, **data: str) -> str:
    response = client.post(path, data, follow=True)
    assert response.status_code == 200
    return " ".join(str(message) for message in response.context["messages"])


def test_sending_redirects_to_the_instruction(mara: Client, agent: Agent) -> None:
    response = send(mara, content="Check\r\nboth", priority="on")
    row = Instruction.objects.get()
    assert response["Location"] == f"/instructions/{row.id}/"
    assert (row.content, row.on_failed, row.sent_by_name) == ("Check\nboth", "escalate", "mara")
    assert row.position < 0
    assert send(mara, content="Check\r\nboth", agent="coder")["Location"] == response["Location"]
    assert Instruction.objects.count() == 1
    assert "already pending" in mara.get(response["Location"]).content.decode()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"content": " "}, "blank"),
        ({"content": "x" * 8193}, "8193 bytes"),
        ({"content": "a\x07"}, "U+0007"),
        ({"content": ""}, "required"),
        ({"agent": "codr"}, "Nearest: coder"),
        ({"agent": "x" * 65}, "64"),
        ({"max_retries": "21"}, "20"),
        ({"max_retries": "many"}, "whole number"),
        ({"project": "nowhere"}, "valid choice"),
        ({"agent": "a\x00"}, "Null characters"),
    ],
)
def test_errors_show_beside_the_field_and_keep_the_text(
    mara: Client, agent: Agent, change: dict[str, str], says: str
) -> None:
    make_project("other")
    response = send(mara, **({"content": "these words"} | change))
    html = response.content.decode()
    assert response.status_code == 422 and says in html
    assert "these words" in html or "content" in change
    assert not Instruction.objects.exists()


def test_plain_instruction_is_not_tracked(mara: Client, agent: Agent) -> None:
    send(mara, plain="on")
    assert not Instruction.objects.get().tracked


def test_form_lists_the_project_s_agents(mara: Client, agent: Agent) -> None:
    make_agent("stranger", project=make_project("other"))
    html = mara.get("/instructions/new/?project=default&agent=coder").content.decode()
    assert 'value="coder"' in html and "stranger" not in html


def test_send_again(mara: Client, agent: Agent) -> None:
    row = make_instruction(InstructionState.DELIVERED, agent=agent)
    path = f"/instructions/{row.id}/send-again/"
    assert "Queued again" in said(mara, path)
    assert "Nothing changed" in said(mara, path)
    assert pull(agent) == [row.content]
    page = mara.get(f"/instructions/{row.id}/").content.decode()
    assert "Queued again by mara" in page


@pytest.mark.parametrize("on_failed", ["record", "escalate"])
def test_what_was_given_up_is_sent_again(mara: Client, agent: Agent, on_failed: str) -> None:
    """It is a new instruction, first in the queue; an open escalation is answered with it."""
    old = make_instruction(InstructionState.FAILED, agent=agent, on_failed=on_failed)
    make_instruction(InstructionState.QUEUED, agent=agent, content="Later")
    page = mara.get(f"/instructions/{old.id}/").content.decode()
    assert "Send again" in page and "You can send the same text again" in page
    response = mara.post(f"/instructions/{old.id}/send-again/")
    new = Instruction.objects.get(resend_of=old)
    assert response["Location"] == f"/instructions/{new.id}/"
    assert "Sent again as a new instruction" in mara.get(response["Location"]).content.decode()
    assert (new.content, new.max_retries, new.on_failed) == (
        old.content,
        old.max_retries,
        on_failed,
    )
    assert "Nothing changed" in said(mara, f"/instructions/{old.id}/send-again/")
    assert pull(agent) == [old.content, "Later"]
    answered = Escalation.objects.values_list("state", "action", "channel", "resent_as")
    assert list(answered) == [("resolved", "retry", "page", new.pk)] * (on_failed == "escalate")
    old.refresh_from_db()
    assert old.state == InstructionState.FAILED


def test_the_form_says_that_delivery_is_not_guaranteed(mara: Client, agent: Agent) -> None:
    for path in ("/instructions/new/", "/instructions/"):
        assert "Delivery is not guaranteed." in mara.get(path).content.decode()
    text = mara.get(send(mara)["Location"]).content.decode()
    assert "gets it if it checks in; delivery is not guaranteed." in text


def test_acknowledge(mara: Client, agent: Agent) -> None:
    row = make_instruction(InstructionState.DELIVERED, agent=agent)
    assert "Marked" in said(mara, f"/instructions/{row.id}/acknowledge/")
    assert Event.objects.get(kind="instruction.acknowledged").actor_name == "mara"
    assert "Nothing changed" in said(mara, f"/instructions/{row.id}/acknowledge/")


def test_cancel_asks_first(mara: Client, agent: Agent) -> None:
    row = make_instruction(InstructionState.QUEUED, agent=agent)
    path = f"/instructions/{row.id}/withdraw/"
    asked = mara.post(path)
    assert asked["Location"] == f"/instructions/{row.id}/?ask=withdraw"
    assert "Cancel this instruction?" in mara.get(asked["Location"]).content.decode()
    assert Instruction.objects.get().state == InstructionState.QUEUED
    assert "Cancelled" in said(mara, path, confirmed="yes")
    assert "Nothing changed" in said(mara, path, confirmed="yes")
    assert Event.objects.get(kind="instruction.cancelled").actor_name == "mara"


@pytest.mark.parametrize(
    ("state", "verbs"),
    [
        (InstructionState.QUEUED, {"acknowledge", "withdraw"}),
        (InstructionState.DELIVERED, {"send-again", "acknowledge", "withdraw"}),
        (InstructionState.ACKNOWLEDGED, set()),
        (InstructionState.FAILED, {"send-again", "edit"}),
        (InstructionState.CANCELLED, set()),
    ],
)
def test_only_allowed_actions_have_buttons(
    mara: Client, agent: Agent, state: str, verbs: set[str]
) -> None:
    row = make_instruction(state, agent=agent)
    html = mara.get(f"/instructions/{row.id}/").content.decode()
    assert set(re.findall(rf"/instructions/{row.id}/([a-z-]+)/", html)) == verbs


@pytest.mark.parametrize("verb", ["send-again", "acknowledge", "withdraw", "explode"])
def test_get_never_acts_and_strangers_are_refused(agent: Agent, mara: Client, verb: str) -> None:
    row = make_instruction(InstructionState.DELIVERED, agent=agent)
    path = f"/instructions/{row.id}/{verb}/"
    assert mara.get(path).status_code == 405
    assert Client().post(path)["Location"].startswith("/sign-in/")
    assert Client(enforce_csrf_checks=True).post(path).status_code == 403
    assert (
        mara.post("/instructions/01a1fe6d-9b01-7830-98b6-0164ecc5924c/withdraw/").status_code == 404
    )
    assert Instruction.objects.get().state == InstructionState.DELIVERED


@pytest.mark.parametrize("on_failed", ["record", "escalate"])
def test_a_given_up_instruction_is_edited_and_sent(
    mara: Client, agent: Agent, on_failed: str
) -> None:
    """The form has its text; what is sent takes its place, and answers the open escalation."""
    old = make_instruction(InstructionState.FAILED, agent=agent, on_failed=on_failed)
    address = f"/instructions/{old.pk}/edit/"
    page = mara.get(address).content.decode()
    assert f"\n{old.content}</textarea>" in page
    assert ("The open escalation is answered" in page) == (on_failed == "escalate")
    blank = mara.post(address, {"content": "  "})
    assert blank.status_code == 422 and "hint--err" in blank.content.decode()
    sent = mara.post(address, {"content": "Use port 8081\r\ninstead"})
    new = Instruction.objects.get(resend_of=old)
    assert sent["Location"] == f"/instructions/{new.pk}/"
    assert (new.content, new.max_retries) == ("Use port 8081\ninstead", old.max_retries)
    assert not Escalation.objects.open().exists()
    late = mara.post(f"/instructions/{new.pk}/edit/", {"content": "x"})
    assert late["Location"] == f"/instructions/{new.pk}/"
    assert Instruction.objects.count() == 2
