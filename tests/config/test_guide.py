"""The guide for agents names only what the API has."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from config.api_document.problems import problem_kinds
from ledger.access.scopes import SCOPES
from retries.states import Reason
from tests.ledger.api.openapi import openapi_schema

ADDRESS = re.compile(r"`(GET|POST|PATCH|DELETE) (/[^`\s]+)`")
WORD = re.compile(r"`([a-z][a-z0-9_.]*)`")
# Decisions are not an enum of the description: `retries.api.attempts` makes two of them.
DECISIONS = {"done", "wait", "retry", "escalated", "blocked", "failed", "aborted"}


def fetch(path: str = "/v1/guide") -> str:
    response = Client().get(path)
    assert response.status_code == 200
    return response.content.decode()


def schema_of(method: str, path: str) -> dict[str, Any]:
    operation: dict[str, Any] = openapi_schema()["paths"][path][method.lower()]
    return operation


def values_of(value: Any) -> Iterator[str]:
    """Yield the names of all properties and parameters, and the values of all enums."""
    if isinstance(value, dict):
        yield from value.get("properties", {})
        yield from (each for each in value.get("enum", []) if isinstance(each, str))
        if value.get("in") == "query":
            yield value["name"]
        for inner in value.values():
            yield from values_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from values_of(inner)


def test_both_addresses_serve_one_page_with_this_servers_address() -> None:
    guide, listed = Client().get("/v1/guide"), Client().get("/llms.txt")
    assert guide["Content-Type"] == "text/markdown; charset=utf-8"
    assert listed["Content-Type"] == "text/plain; charset=utf-8"
    assert guide.content == listed.content
    text = guide.content.decode()
    assert text.startswith("# ") and "\n> " in text  # as llms.txt begins
    assert settings.LINK_URL in text and "tenfour.example.org" not in text


def test_they_are_off_with_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "TENFOUR", settings.TENFOUR | {"OPEN_DOCS": False})
    for path in ("/v1/guide", "/llms.txt"):
        assert Client().get(path).status_code == 404


def test_every_address_exists() -> None:
    addresses = ADDRESS.findall(fetch())
    assert len(set(addresses)) >= 9
    for method, path in addresses:
        assert method.lower() in openapi_schema()["paths"].get(path, {}), (method, path)


def test_every_link_is_an_address_of_this_server() -> None:
    links = re.findall(rf"\]\({re.escape(settings.LINK_URL)}(/[^)]*)\)", fetch())
    assert len(links) >= 2
    for link in links:
        assert Client().get(link).status_code != 404, link


def test_every_field_and_value_exists() -> None:
    known = {*values_of(openapi_schema()), *problem_kinds(), *SCOPES, *DECISIONS, *Reason.values}
    known |= {"verify"}  # a key of a task's payload
    words = {part for word in WORD.findall(fetch()) for part in word.split(".")}
    assert len(words) >= 40
    assert words - known == set()


def test_every_example_is_a_valid_body_of_the_address_before_it() -> None:
    from jsonschema import Draft202012Validator  # seconds: not while other tests are collected

    schema, text, seen = openapi_schema(), fetch(), 0
    for found in re.finditer(r"```json\n(.*?)```", text, re.DOTALL):
        method, path = ADDRESS.findall(text[: found.start()])[-1]
        body = schema_of(method, path)["requestBody"]["content"]["application/json"]["schema"]
        validator = Draft202012Validator({**body, "components": schema["components"]})
        errors = [error.message for error in validator.iter_errors(json.loads(found[1]))]
        assert errors == [], (method, path)
        seen += 1
    assert seen >= 6


@pytest.mark.parametrize("decision", sorted(DECISIONS))
def test_every_decision_is_explained(decision: str) -> None:
    table = fetch().partition("## Decisions")[2].partition("\n## ")[0]
    assert f"`{decision}`" in table
