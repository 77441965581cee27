"""Several permission requests answered at once, and what other answers do with them."""

from datetime import datetime, timedelta
from typing import Any

from django.test import Client

from ledger.models import Agent
from retries.models import Operation, PermissionRequest
from retries.models.operation import OperationItem
from retries.states import PermissionState
from tests.dashboard.escalations.test_escalations import ignored, words
from tests.retries.operations.worlds import run
from tests.retries.permissions.asking import ask, escalation_of

NEW = "/operations/new/escalation"
MINUTE = timedelta(minutes=1)


def start(browser: Client, chosen: list[Any], verb: str = "answer", **options: str) -> Operation:
    browser.post(f"{NEW}.{verb}/", {"id": chosen, "confirmed": "yes", **options})
    return Operation.objects.get()


def state_of(request: PermissionRequest) -> str:
    request.refresh_from_db()
    return request.state


def test_calls_are_allowed_and_others_left(browser: Client, agent: Agent, now: datetime) -> None:
    calls = [ask(agent, f"npm test {number}", now=now) for number in range(2)]
    other = ignored(agent, now=now)
    ids = [*(escalation_of(each).pk for each in calls), other.pk]
    said = words(browser.post(f"{NEW}.answer/", {"id": ids}))
    assert "Allow the calls once" in said and "Deny the calls" in said
    assert "answer the 2 calls alone and leave the 1 other as it is" in said
    operation = run(start(browser, ids, action="allow"), now=now + MINUTE)
    items = [(each.state, each.refusal) for each in OperationItem.objects.order_by("id")]
    assert [state_of(each) for each in calls] == [PermissionState.ALLOWED] * 2, items
    other.refresh_from_db()
    assert other.is_open
    assert (operation.total, operation.changed) == (2, 2)


def test_other_answers_leave_calls(browser: Client, agent: Agent, now: datetime) -> None:
    call, other = ask(agent, now=now), ignored(agent, now=now)
    ids = [escalation_of(call).pk, other.pk]
    run(start(browser, ids, action="retry"), now=now + MINUTE)
    assert state_of(call) == PermissionState.WAITING
    other.refresh_from_db()
    assert not other.is_open


def test_a_call_is_not_skipped(browser: Client, agent: Agent, now: datetime) -> None:
    call, other = ask(agent, now=now), ignored(agent, now=now)
    said = words(browser.post(f"{NEW}.skip/", {"id": [escalation_of(call).pk, other.pk]}))
    assert "A permission request is not skipped: it ends by itself" in said
    assert "1 escalation will be skipped." in said
