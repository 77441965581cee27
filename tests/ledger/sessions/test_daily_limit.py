"""The limit of bytes that an agent's own tokens store in sessions in a day (SEC-14)."""

import json
from typing import Any

import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

from ledger.access.daily_limits import MIB
from ledger.models import Agent, DailyTaskCount, Message, Session
from tests.conftest import Api
from tests.elsewhere import at_once
from tests.factories import make_agent, make_token

TEXTS = [{"type": "text", "text": "x" * 50_000}] * 8
BIG = {"role": "user", "content": TEXTS}


@pytest.fixture(autouse=True)
def _limited(settings: Settings) -> None:
    settings.TENFOUR = django_settings.TENFOUR | {"AGENT_SESSION_MIB_PER_DAY": 1}


def begin(caller: Api, **body: Any) -> str:
    id: str = caller("POST", "/sessions", body).body["id"]
    return id


@pytest.mark.django_db
def test_an_agent_stores_so_many_bytes_a_day(coder: Api, api: Any) -> None:
    """One message or several at a time; what is refused does not count."""
    path = f"/sessions/{begin(coder)}/messages"
    assert coder("POST", path, BIG).status_code == 201
    for body in ([BIG, BIG], {"messages": [BIG, BIG]}):
        refused = coder("POST", path, body)
        assert (refused.status_code, refused.body["code"]) == (429, "rate_limited")
        assert "at most 1 MiB in sessions a day" in refused.body["detail"]
        assert "TENFOUR_AGENT_SESSION_MIB_PER_DAY" in refused.body["hint"]
        assert 0 < int(refused["Retry-After"]) <= 86_400
    assert coder("POST", path, BIG).status_code == 201
    assert coder("POST", path, BIG).status_code == 429
    assert Message.objects.count() == 2
    assert 800_000 < DailyTaskCount.objects.get().session_bytes <= MIB
    # a session that the agent can't see is 404, and counts for nothing
    other = api("agent", agent=make_agent("other"))
    assert other("POST", path, BIG).status_code == 404
    assert DailyTaskCount.objects.count() == 1
    assert other("POST", f"/sessions/{begin(other)}/messages", BIG).status_code == 201
    # a task is counted beside them
    assert coder("POST", "/tasks", {"type": "code"}).status_code == 201
    count = DailyTaskCount.objects.get(agent__name="coder")
    assert count.tasks == 1 and count.session_bytes > 800_000


@pytest.mark.django_db
def test_a_new_day_begins_at_zero(coder: Api) -> None:
    path = f"/sessions/{begin(coder)}/messages"
    assert [coder("POST", path, BIG).status_code for _ in range(3)] == [201, 201, 429]
    DailyTaskCount.objects.update(day="2020-01-01", tasks=7)
    assert coder("POST", path, BIG).status_code == 201
    count = DailyTaskCount.objects.get()
    assert count.tasks == 0 and count.session_bytes < 500_000


@pytest.mark.django_db
def test_sessions_themselves_count(coder: Api) -> None:
    """With their metadata; one that exists already does not."""
    metadata = {"note": "x" * 16_000}
    for n in range(64):
        assert coder("POST", "/sessions", {"metadata": metadata, "external_id": f"s-{n}"}).body
    refused = coder("POST", "/sessions", {"metadata": metadata, "external_id": "s-64"})
    assert refused.status_code == 429 and Session.objects.count() == 64
    assert (
        coder("POST", "/sessions", {"metadata": metadata, "external_id": "s-3"}).status_code == 200
    )


@pytest.mark.django_db
def test_an_import_counts_only_what_is_new(coder: Api, operator: Api) -> None:
    def lines(*names: str) -> str:
        return "".join(
            json.dumps(
                {
                    "type": "user",
                    "sessionId": "8c1f",
                    "uuid": name,
                    "message": {"role": "user", "content": TEXTS[:4]},
                }
            )
            + "\n"
            for name in names
        )

    def send(caller: Api, text: str, query: str = "") -> int:
        response = caller(
            "POST", f"/sessions/import{query}", text, Content_Type="application/x-ndjson"
        )
        return response.status_code

    four = ("93391a71", "93391a72", "93391a73", "93391a74")
    assert send(coder, lines(*four)) == 201
    assert send(coder, lines(*four)) == 200
    assert send(coder, lines(*four, "93391a75", "93391a76")) == 429
    assert Message.objects.count() == 4
    # a producer's or an operator's token has no such limit
    assert send(operator, lines(*four, "93391a75", "93391a76"), "?agent=coder") == 201


@pytest.mark.django_db
def test_zero_is_no_limit(coder: Api, agent: Agent, settings: Settings) -> None:
    settings.TENFOUR = django_settings.TENFOUR | {"AGENT_SESSION_MIB_PER_DAY": 0}
    path = f"/sessions/{begin(coder)}/messages"
    assert [coder("POST", path, BIG).status_code for _ in range(4)] == [201] * 4


@pytest.mark.django_db(transaction=True)
def test_the_count_is_exact_at_once() -> None:
    secret = make_token("agent")
    path = f"/sessions/{begin(Api(secret))}/messages"

    def store(n: int) -> list[int]:
        caller = Api(secret)
        return [caller("POST", path, BIG).status_code for _ in range(2)]

    found = [status for answers in at_once(4, store) for status in answers]
    assert sorted(found) == [201] * 2 + [429] * 6
    session = Session.objects.get()
    assert session.message_count == Message.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_messages_that_come_at_once_are_stored_in_order(settings: Settings) -> None:
    settings.TENFOUR = django_settings.TENFOUR | {"AGENT_SESSION_MIB_PER_DAY": 4}
    secret = make_token("agent")
    path = f"/sessions/{begin(Api(secret))}/messages"
    small = {"role": "user", "content": "x" * 1_000}

    def store(n: int) -> list[int]:
        caller = Api(secret)
        return [caller("POST", path, small).status_code for _ in range(10)]

    assert {status for answers in at_once(4, store) for status in answers} == {201}
    assert sorted(Message.objects.values_list("order", flat=True)) == list(range(1, 41))
    assert 40 * 1_250 < DailyTaskCount.objects.get().session_bytes < 40 * 1_400
