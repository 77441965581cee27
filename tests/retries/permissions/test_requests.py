"""Permission requests: asked once, answered once, and never allowed without a decision."""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from ledger.errors import Invalid, NotFound
from ledger.journal import Stamp
from ledger.models import Agent, Event
from retries.claiming.session_names import SESSION
from retries.escalations import answering, expiry
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved, EscalationExpired, UndoTooLate
from retries.escalations.options import list_options
from retries.models import Escalation, PermissionRequest
from retries.permissions import requests
from retries.permissions.calls import ToolCall
from retries.retention import escalation_rows
from retries.retention.row_kind import FIRST_ID, Scope
from retries.states import Answer, PermissionState
from retries.sweeps import process_escalations
from tests.elsewhere import blocked
from tests.factories import MINUTE, NOW, make_agent, make_project
from tests.retries.escalations.test_answering import MARA, answer
from tests.retries.moves import claim, make_task
from tests.retries.permissions.asking import CODER, FOLDER, ask, escalation_of, make_rule
from tests.waiting import PATIENCE_S

P = PermissionState
SECOND = timedelta(seconds=1)


def state_of(request: PermissionRequest) -> str:
    return PermissionRequest.objects.get(pk=request.pk).state


def poll(request: PermissionRequest, now: Any = NOW + MINUTE) -> PermissionRequest:
    return requests.poll(request.pk, among=PermissionRequest.objects.all(), now=now)


@pytest.mark.django_db
def test_a_request_opens_an_escalation_with_the_call_and_its_deadline(agent: Agent) -> None:
    request = ask(agent, "git push --force origin main", said="I push the fix now.")
    escalation = escalation_of(request)
    assert request.state == P.WAITING and request.title == "git push --force origin main"
    assert (escalation.reason, escalation.state) == ("permission_request", "open")
    assert escalation.expires_at == request.expires_at == NOW + timedelta(minutes=9)
    assert escalation.on_expiry == "terminal" and escalation.severity == "high"
    assert [option.name for option in list_options(escalation)] == ["allow", "deny"]
    opened = Event.objects.get(kind="escalation.opened")
    assert opened.data == {"reason": "permission_request", "permission": str(request.pk)}


@pytest.mark.django_db
@pytest.mark.parametrize(("action", "state"), [(Answer.ALLOW, P.ALLOWED), (Answer.DENY, P.DENIED)])
def test_an_answer_decides_and_the_agent_takes_it(agent: Agent, action: Answer, state: str) -> None:
    request = ask(agent)
    text = "Use make test." if action == Answer.DENY else ""
    answered = answer(escalation_of(request), action, text)
    assert (answered.state, answered.action, answered.fix) == ("resolved", action, text)
    assert state_of(request) == state
    assert Event.objects.get(kind="escalation.resolved").data["waited_s"] == 60
    taken = poll(request)
    assert taken.taken_at == NOW + MINUTE and taken.state == state
    found = requests.find_answer(taken)
    assert found is not None and found.answered_by_name == "mara"
    assert poll(request, NOW + 2 * MINUTE).taken_at == NOW + MINUTE


@pytest.mark.django_db
def test_the_same_call_asked_twice_is_one_request(agent: Agent) -> None:
    first = ask(agent)
    assert ask(agent, now=NOW + SECOND).pk == first.pk
    assert ask(agent, call_id="2").pk != first.pk
    assert ask(agent, session="s-2").pk != first.pk
    assert ask(agent, "npm run build").pk != first.pk
    assert ask(make_agent("other")).pk != first.pk
    assert Escalation.objects.open().count() == 5
    answer(escalation_of(first), Answer.ALLOW)
    again = ask(agent, now=NOW + 2 * MINUTE)
    assert again.pk != first.pk and again.state == P.WAITING


@pytest.mark.django_db(transaction=True)
def test_two_hooks_that_ask_at_once_get_one_request(
    agent: Agent, elsewhere: Callable[..., Future[Any]]
) -> None:
    with transaction.atomic():
        mine = ask(agent)
        other = elsewhere(lambda: ask(agent).pk)
        assert blocked(1)
    assert other.result(timeout=PATIENCE_S) == mine.pk
    assert PermissionRequest.objects.count() == Escalation.objects.count() == 1


@pytest.mark.django_db
def test_without_an_answer_it_ends_and_nothing_is_allowed(agent: Agent) -> None:
    request = ask(agent)
    over = request.expires_at + SECOND
    with pytest.raises(EscalationExpired, match="no longer waits"):
        answer(escalation_of(request), Answer.ALLOW, now=over)
    PermissionRequest.objects.update(polled_at=request.expires_at)
    assert process_escalations(now=over, project=None)["expired"] == 1
    assert state_of(request) == P.EXPIRED
    assert escalation_of(request).state == "expired"
    assert poll(request, over).taken_at is None
    with pytest.raises(EscalationExpired):
        answer(escalation_of(request), Answer.ALLOW, now=over)


@pytest.mark.django_db
def test_a_request_that_its_agent_leaves_alone_is_withdrawn(agent: Agent) -> None:
    request, other = ask(agent), ask(agent, "npm ci")
    poll(other, NOW + 2 * MINUTE)
    did = process_escalations(now=NOW + 2 * MINUTE, project=None)
    assert did["withdrawn"] == 1
    assert (state_of(request), state_of(other)) == (P.WITHDRAWN, P.WAITING)
    assert escalation_of(request).state == "withdrawn"
    with pytest.raises(AlreadyResolved):
        answer(escalation_of(request), Answer.ALLOW)


@pytest.mark.django_db
def test_an_answer_can_be_undone_until_the_agent_takes_it(agent: Agent) -> None:
    request = ask(agent)
    among = Escalation.objects.all()
    answered = answer(escalation_of(request), Answer.ALLOW, undo_for=timedelta(seconds=10))
    assert answered.undo_until is not None
    answering.undo(answered.pk, among=among, stamp=Stamp(MARA, NOW + MINUTE))
    assert state_of(request) == P.WAITING and escalation_of(request).state == "open"
    answered = answer(escalation_of(request), Answer.DENY, undo_for=timedelta(seconds=10))
    poll(request)
    with pytest.raises(UndoTooLate, match="the agent has it"):
        answering.undo(answered.pk, among=among, stamp=Stamp(MARA, NOW + MINUTE + SECOND))
    assert state_of(request) == P.DENIED


@pytest.mark.django_db
@pytest.mark.parametrize("action", ["retry", "fix", "skip", "abort", "answer", "accept"])
def test_it_takes_no_other_answer(agent: Agent, action: str) -> None:
    request = ask(agent)
    with pytest.raises(Invalid):
        answer(escalation_of(request), action, "x" if action in ("fix", "answer") else "")
    assert state_of(request) == P.WAITING


PATCH = "*** Begin Patch\n*** Add File: a.py\n+pass\n*** End Patch"


@pytest.mark.parametrize(
    ("asked", "ran", "is_same"),
    [
        ({"command": "npm test", "description": "tests"}, {"command": "npm test"}, True),
        ({"command": "npm test", "description": "tests"}, {"command": "npm ci"}, False),
        ({"file_path": "/a", "content": "x"}, {"file_path": "/a"}, True),
        ({"command": PATCH}, {"command": PATCH.replace("+pass\n", "")}, True),
        ({"command": PATCH}, {"command": PATCH}, True),
        ({"command": PATCH}, {"command": "*** Begin Patch\n*** End Patch"}, False),
        ({"query": "x"}, {}, True),
        ({"query": "x"}, None, False),
    ],
)
def test_a_call_that_has_run_is_known_by_what_the_hook_tells_of_it(
    asked: Any, ran: Any, is_same: bool
) -> None:
    assert requests.is_same(asked, ran) is is_same


@pytest.mark.django_db
def test_a_person_at_the_terminal_may_answer_first(agent: Agent) -> None:
    request, other = ask(agent), ask(agent, "npm ci")
    call = ToolCall("Bash", {"command": "npm test"}, "/srv/web-shop")
    requests.note_ran(agent.pk, "s-1", call, stamp=Stamp(CODER, NOW + SECOND))
    assert (state_of(request), state_of(other)) == (P.ANSWERED_THERE, P.WAITING)
    assert escalation_of(request).state == "withdrawn"
    requests.end_session(agent.pk, "s-1", stamp=Stamp(CODER, NOW + SECOND))
    assert state_of(other) == P.WITHDRAWN


@pytest.mark.django_db
def test_it_is_about_the_task_that_the_session_works_on(agent: Agent) -> None:
    task = make_task(agent)
    claim(agent, worker_id=f"{SESSION}s-1")
    assert ask(agent).task_id == task
    assert ask(agent, session="s-2").task_id is None


@pytest.mark.django_db
def test_secrets_are_masked_in_what_is_stored(agent: Agent) -> None:
    secret = "ghp_" + "a1B2" * 9
    request = ask(agent, f"curl -H 'Authorization: Bearer {secret}' example.com", said=secret)
    row = PermissionRequest.objects.values().get(pk=request.pk)
    assert secret not in str(row) and secret not in escalation_of(request).question


@pytest.mark.django_db
def test_a_question_with_choices_is_answered_by_values(agent: Agent) -> None:
    asked = {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}
    request = ask(agent, ToolCall("AskUserQuestion", {"questions": [asked]}, ""))
    escalation = escalation_of(request)
    assert escalation.question == "Which?"
    with pytest.raises(Invalid):
        answer(escalation, Answer.ALLOW)
    answering.answer(
        escalation.pk,
        Choice(Answer.ALLOW, response={"Which?": "B"}),
        among=Escalation.objects.all(),
        stamp=Stamp(MARA, NOW + MINUTE),
        channel="page",
    )
    found = requests.find_answer(poll(request))
    assert found is not None and found.response == {"Which?": "B"}


@pytest.mark.django_db
def test_old_requests_are_deleted_with_their_escalations(agent: Agent) -> None:
    done, waiting = ask(agent), ask(agent, "npm ci")
    answer(escalation_of(done), Answer.ALLOW)
    make_rule(agent, "npm run build")
    by_rule = ask(agent, "npm run build")
    scope = Scope(NOW + timedelta(days=400))
    found = escalation_rows.PERMISSIONS.find(FIRST_ID, scope)
    assert found is not None and set(found.ids) == {done.pk, by_rule.pk}
    assert (
        len([each for records in escalation_rows.PERMISSIONS.read(found.ids) for each in records])
        == 2
    )
    assert escalation_rows.PERMISSIONS.delete(found.ids, scope) == 2
    assert list(Escalation.objects.values_list("permission", flat=True)) == [waiting.pk]


@pytest.mark.django_db
@pytest.mark.parametrize("wait", [timedelta(), timedelta(hours=25), -SECOND])
def test_a_wait_without_an_end_is_refused(agent: Agent, wait: timedelta) -> None:
    with pytest.raises(Invalid, match="wait_s"):
        ask(agent, wait=wait)


@pytest.mark.django_db
def test_one_escalation_that_fails_to_expire_holds_up_no_other(agent: Agent) -> None:
    first, second = ask(agent), ask(agent, "npm ci")
    assert expiry.expire_due(now=NOW + timedelta(minutes=10), of=None) == 2
    assert {state_of(first), state_of(second)} == {P.EXPIRED}


@pytest.mark.django_db
def test_another_agent_s_request_is_not_found(agent: Agent) -> None:
    request = ask(agent)
    stranger = make_agent("stranger", project=make_project("other"))
    among = PermissionRequest.objects.filter(agent=stranger)
    with pytest.raises(NotFound):
        requests.poll(request.pk, among=among, now=NOW)
    with pytest.raises(NotFound):
        requests.end(request.pk, P.WITHDRAWN, among=among, stamp=Stamp(CODER, NOW))
    assert state_of(request) == P.WAITING


def test_a_form_that_no_page_can_show_is_refused(agent: Agent) -> None:
    """No one could answer it, so its *Allow* would accept a form without values."""
    for schema in (None, {"type": "array"}, {"type": "object", "properties": {"x": {"type": "y"}}}):
        form = {"message": "Where to?", "requested_schema": schema}
        with pytest.raises(Invalid):
            ask(agent, ToolCall("Elicitation", form, FOLDER))
    assert not PermissionRequest.objects.exists()
