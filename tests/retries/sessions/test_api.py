"""Sessions over HTTP: stored, read, flushed, and refused."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger.models import Agent, Event, Message, Session
from tests.conftest import Api
from tests.factories import make_agent, make_project

pytestmark = pytest.mark.django_db


def begin(api: Api, **more: Any) -> str:
    response = api("POST", "/sessions", {"tracker": "none"} | more)
    assert response.status_code == 201, response.body
    id: str = response.body["id"]
    return id


def test_a_session_is_created_once_and_read(coder: Api, operator: Api) -> None:
    made = coder("POST", "/sessions", {"external_id": "8c1f", "metadata": {"model": "x"}})
    assert made.status_code == 201
    again = coder("POST", "/sessions", {"external_id": "8c1f", "tracker": "none"})
    assert (again.status_code, again.body["id"]) == (200, made.body["id"])
    assert again.body["tracker"] == "todo"
    id = made.body["id"]
    assert coder("GET", f"/sessions/{id}").body == made.body
    assert operator("GET", f"/sessions/{id}").body["agent"] == "coder"
    assert [each["id"] for each in operator("GET", "/sessions", None).body["data"]] == [id]
    assert operator("GET", "/sessions?agent=coder").body["data"][0]["id"] == id
    assert Event.objects.filter(kind="session.created").count() == 1


def test_messages_of_both_forms_are_stored_in_one(coder: Api) -> None:
    id = begin(coder, tracker="todo", external_id="s1")
    key = "AKIAIOSFODNN7EXAMPLE"
    one = coder("POST", f"/sessions/{id}/messages", {"role": "user", "content": f"Fix it {key}"})
    assert (one.status_code, one.body["pending"]) == (201, 1), one.body
    many = coder(
        "POST",
        f"/sessions/{id}/messages",
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "ls", "arguments": '{"p":1}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm", "signature": "x"},
                    {"type": "text", "text": "I look"},
                    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.py"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "is_error": True,
                        "content": [{"type": "text", "text": "no such file"}],
                    }
                ],
            },
        ],
    )
    assert many.status_code == 201, many.body
    assert len(many.body["message_ids"]) == 4
    page = coder("GET", f"/sessions/{id}/messages?limit=3").body
    rest = coder("GET", f"/sessions/{id}/messages?limit=3&cursor={page['next_cursor']}").body
    rows = page["data"] + rest["data"]
    assert [row["order"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["role"] for row in rows] == ["user", "assistant", "tool", "assistant", "tool"]
    assert [[part["type"] for part in row["content"]] for row in rows] == [
        ["text"],
        ["tool_call"],
        ["tool_result"],
        ["thinking", "text", "tool_call"],
        ["tool_result"],
    ]
    assert key not in str(rows) and "[redacted:" in rows[0]["content"][0]["text"]
    assert rows[1]["content"][0]["arguments"] == {"p": 1}
    assert rows[4]["content"][0] == {
        "id": "t1", "text": "no such file", "is_error": True, "type": "tool_result",
    }  # fmt: skip
    status = coder("GET", f"/sessions/{id}/status").body
    assert (status["pending"], status["total"], status["locked"]) == (5, 5, False)
    assert coder("GET", f"/sessions/{id}").body["title"].startswith("Fix it [redacted:")
    assert coder("GET", f"/sessions/{id}/messages?state=success").body["data"] == []


def test_a_session_without_tracking_only_stores(coder: Api) -> None:
    """S2.33"""
    for more in ({"tracker": "none"}, {"disable_task_tracking": True, "tracker": "todo"}):
        id = begin(coder, **more)
        sent = coder("POST", f"/sessions/{id}/messages", [{"role": "user", "content": "Hi"}] * 20)
        assert sent.body["pending"] == 0
        assert coder("POST", f"/sessions/{id}/flush").body == {"processed": 0}
        status = coder("GET", f"/sessions/{id}/status").body
        assert (status["disabled"], status["total"]) == (20, 20)


def test_a_repeated_key_stores_once(coder: Api) -> None:
    id = begin(coder)
    for _ in range(2):
        sent = coder(
            "POST",
            f"/sessions/{id}/messages",
            {"role": "user", "content": "Hi"},
            Idempotency_Key="k",
        )
        assert sent.status_code == 201
    assert Message.objects.filter(session=id).count() == 1


def test_foreign_and_unknown_sessions_are_not_found(
    api: Callable[..., Api], coder: Api, operator: Api
) -> None:
    id = begin(coder)
    strangers = [
        api("agent", agent=make_agent("reviewer")),
        api("operator", project=make_project("elsewhere")),
    ]
    paths = ["", "/messages", "/tasks", "/status"]
    for stranger in strangers:
        found = [stranger("GET", f"/sessions/{id}{path}").status_code for path in paths]
        found.append(
            stranger(
                "POST", f"/sessions/{id}/messages", {"role": "user", "content": "Hi"}
            ).status_code
        )
        found.append(stranger("POST", f"/sessions/{id}/flush").status_code)
        assert found == [404] * 6
    unknown = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"
    assert operator("GET", f"/sessions/{unknown}").status_code == 404
    call = {"calls": [{"name": "finish"}]}
    assert operator("POST", f"/sessions/{unknown}/tool-calls", call).status_code == 404
    assert coder("POST", f"/sessions/{id}/tool-calls", call).status_code == 403
    assert api("reader")("POST", f"/sessions/{id}/flush").status_code == 403
    assert coder("POST", "/sessions", {"agent": "reviewer"}).status_code == 404
    assert operator("POST", "/sessions", {}).body["errors"][0]["pointer"] == "/agent"
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"content": "Hi"}, 422, "/role"),
        ({"role": "robot", "content": "Hi"}, 422, "/role"),
        ({"role": "user"}, 422, "/content"),
        ({"role": "user", "content": 5}, 422, "/content"),
        (
            [{"role": "user", "content": "Hi"}, {"role": "user", "content": [5]}],
            422,
            "/1/content/0",
        ),
        ([{"role": "user", "content": [{"type": "hologram"}]}], 422, "/0/content/0/type"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"a": 1}}]}],
            422,
            "/0/tool_calls/0/function/name",
        ),
        ([{"role": "user", "content": "Hi"}] * 101, 422, "/"),
        ([], 422, "/"),
        ({"messages": [], "attempt": None}, 422, "/messages"),
        ({"messages": [{"role": "user", "content": "Hi"}], "attempt": "x"}, 422, "/attempt"),
        ({"messages": [{"role": "user", "content": "Hi"}], "colour": 1}, 422, "/colour"),
        (
            {
                "messages": [{"role": "user", "content": "Hi"}],
                "attempt": "01a1fe6d-9b01-7830-98b6-0164ecc5924c",
            },
            422,
            "/attempt",
        ),
        ("[", 400, None),
        ({"role": "user", "content": "x" * 1024 * 1024}, 413, None),
    ],
    ids=lambda each: repr(each)[:60],
)
def test_bad_messages_are_refused_whole(
    coder: Api, body: Any, status: int, pointer: str | None
) -> None:
    id = begin(coder)
    response = coder("POST", f"/sessions/{id}/messages", body)
    assert response.status_code == status, response.body
    if pointer:
        assert response.body["errors"][0]["pointer"] == pointer
    assert not Message.objects.exists()
    assert Session.objects.get().message_count == 0


def test_bad_sessions_are_refused(coder: Api, agent: Agent) -> None:
    for body, pointer in (
        ({"tracker": "magic"}, "/tracker"),
        ({"external_id": " "}, "/external_id"),
        ({"external_id": "x" * 201}, "/external_id"),
        ({"external_id": "a\u202eb"}, "/external_id"),
        ({"metadata": {"x": "y" * 20_000}}, "/metadata"),
        ({"metadata": []}, "/metadata"),
    ):
        response = coder("POST", "/sessions", body)
        assert response.status_code == 422, body
        assert response.body["errors"][0]["pointer"] == pointer
    assert not Session.objects.exists()
