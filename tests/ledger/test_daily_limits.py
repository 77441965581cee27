"""The limit of tasks that an agent's own tokens create in a day."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import transaction
from pytest_django import Settings

from ledger.access.daily_limits import count_tasks
from ledger.errors import RateLimited
from ledger.models import Agent, DailyTaskCount, Task, Token
from tests.conftest import Api
from tests.elsewhere import at_once, blocked
from tests.factories import NOW, make_agent, make_token
from tests.waiting import PATIENCE_S

LIMIT = 3
BODY = {"type": "code"}


@pytest.fixture(autouse=True)
def _limited(settings: Settings) -> None:
    settings.TENFOUR = django_settings.TENFOUR | {"AGENT_TASKS_PER_DAY": LIMIT}


@pytest.mark.django_db
def test_an_agent_creates_so_many_tasks_a_day(coder: Api, operator: Api, api: Any) -> None:
    """With and without a claim; what is refused or replayed does not count."""
    assert coder("POST", "/tasks", BODY | {"priority": 2**40}).status_code == 422
    unknown = ["01a1fe6d-9b01-7830-98b6-0164ecc5924c"]
    assert coder("POST", "/tasks", BODY | {"needs": unknown}).status_code == 422
    for _ in range(2):
        assert coder("POST", "/tasks", BODY, Idempotency_Key="once").status_code == 201
    assert coder("POST", "/tasks?claim=true", BODY).status_code == 201
    assert coder("POST", "/tasks", BODY).status_code == 201
    for path in ("/tasks", "/tasks?claim=true"):
        refused = coder("POST", path, BODY)
        assert (refused.status_code, refused.body["code"]) == (429, "rate_limited")
        assert "at most 3 tasks a day" in refused.body["detail"]
        assert "TENFOUR_AGENT_TASKS_PER_DAY" in refused.body["hint"]
        assert 0 < int(refused["Retry-After"]) <= 86_400
        assert refused.body["retry_after_s"] == int(refused["Retry-After"])
    assert Task.objects.count() == LIMIT
    assert operator("POST", "/tasks", BODY | {"agent": "coder"}).status_code == 201
    other = api("agent", agent=make_agent("other"))
    assert other("POST", "/tasks", BODY).status_code == 201
    # a second token of the same agent shares the limit, and a new day begins at zero
    second = api("agent", agent=make_agent("coder"))
    assert second("POST", "/tasks", BODY).status_code == 429
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    DailyTaskCount.objects.filter(agent__name="coder").update(day=yesterday)
    assert second("POST", "/tasks", BODY).status_code == 201
    assert DailyTaskCount.objects.get(agent__name="coder").tasks == 1


@pytest.mark.django_db
def test_bulk_counts_every_task(coder: Api, agent: Agent) -> None:
    """For an agent's token with more scopes than it is given."""
    scopes = [*Token.objects.get().scopes, "tasks:write"]
    Token.objects.update(scopes=scopes)
    assert coder("POST", "/tasks", BODY).status_code == 201
    many = {"tasks": [BODY] * LIMIT}
    assert coder("POST", "/tasks/bulk", many).status_code == 429
    assert Task.objects.count() == 1
    each = coder("POST", "/tasks/bulk?atomic=false", many).body["data"]
    assert [item["status"] for item in each] == [201, 201, 429]
    assert Task.objects.count() == LIMIT


@pytest.mark.django_db
def test_days_are_days_in_utc_and_none_is_no_limit(agent: Agent, settings: Settings) -> None:
    late = datetime(2026, 11, 21, 23, 59, 30, tzinfo=UTC)
    count_tasks(agent, LIMIT, now=late)
    with pytest.raises(RateLimited) as refused:
        count_tasks(agent, 1, now=late)
    assert refused.value.more == {"retry_after_s": 30}
    count_tasks(agent, 2, now=late + timedelta(seconds=30))
    with pytest.raises(RateLimited):
        count_tasks(agent, 2, now=late + timedelta(seconds=31))
    count_tasks(agent, 1, now=late + timedelta(seconds=31))
    with pytest.raises(RateLimited):
        count_tasks(make_agent("new"), LIMIT + 1, now=late)
    settings.TENFOUR = django_settings.TENFOUR | {"AGENT_TASKS_PER_DAY": 0}
    count_tasks(agent, 1000, now=late)


@pytest.mark.django_db(transaction=True)
def test_the_count_is_exact_at_once() -> None:
    secret = make_token("agent")

    def create(n: int) -> list[int]:
        caller = Api(secret)
        return [caller("POST", "/tasks", BODY).status_code for _ in range(LIMIT)]

    found = [status for answers in at_once(4, create) for status in answers]
    assert sorted(found) == [201] * LIMIT + [429] * (4 * LIMIT - LIMIT)
    assert Task.objects.count() == LIMIT


@pytest.mark.django_db(transaction=True)
def test_one_agents_count_holds_back_no_other(elsewhere: Any) -> None:
    first, second = make_agent("first"), make_agent("second")
    with transaction.atomic():
        count_tasks(first, LIMIT, now=NOW)
        elsewhere(lambda: count_tasks(second, LIMIT, now=NOW)).result(PATIENCE_S)
        waits = elsewhere(lambda: count_tasks(first, 1, now=NOW))
        with blocked(waits):
            pass
    with pytest.raises(RateLimited):
        waits.result(PATIENCE_S)
