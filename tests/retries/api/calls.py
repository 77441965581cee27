"""Calls that several tests of the API begin with."""

from typing import Any


def enqueue(api: Any, **body: Any) -> str:
    response = api("POST", "/tasks", {"agent": "coder", "type": "code"} | body)
    assert response.status_code == 201, response.content
    id: str = response.body["id"]
    return id


def claim(coder: Any, **body: Any) -> dict[str, Any]:
    response = coder("POST", "/claims", body or None)
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.body
    return found
