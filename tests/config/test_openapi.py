"""The API's description: valid, reviewed, and complete."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from config.api_document.problems import problem_kinds
from ledger.models import Agent
from tests.conftest import Api
from tests.ledger.api.openapi import openapi_schema, responses_of
from tests.retries.api.calls import enqueue

OPENAPI = Path(__file__).parents[2] / "docs" / "openapi.json"
# Operations whose path ends with the resource, by method.
WITHOUT_ID = {"get": ("list", "get"), "post": ("create",), "put": ("set",), "patch": ("update",)}
WITH_ID = {"get": ("get",), "patch": ("update",), "delete": ("delete",)}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(method, path, operation) of everything the API offers."""
    for path, methods in openapi_schema()["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_the_description_is_valid_and_reviewed() -> None:
    schema = json.loads(json.dumps(openapi_schema()))
    validate(schema)
    assert schema == json.loads(OPENAPI.read_text()), "docs/openapi.json: make openapi"


def test_the_introduction_explains_what_all_operations_share() -> None:
    info = openapi_schema()["info"]["description"]
    for heading in ("Authentication", "Errors", "Pages", "Idempotency"):
        assert f"\n## {heading}\n" in info
    assert openapi_schema()["servers"][0]["url"] == "/"


def test_every_operation_is_documented() -> None:
    tags = {tag["name"] for tag in openapi_schema()["tags"]}
    for _, path, operation in operations():
        assert operation["summary"] and operation["description"], path
        assert set(operation["tags"]) <= tags
        good = [answer for status, answer in responses_of(operation).items() if int(status) < 300]
        told = [kind for answer in good for kind in answer.get("content", {}).values()]
        assert (told and all("example" in kind for kind in told)) or "204" in map(
            str, operation["responses"]
        ), path
        for kind in operation.get("requestBody", {}).get("content", {}).values():
            assert "example" in kind, path


def test_every_property_and_parameter_has_a_description() -> None:
    schema = openapi_schema()
    bare = [
        f"{name}.{field}"
        for name, model in schema["components"]["schemas"].items()
        for field, of in model.get("properties", {}).items()
        if not of.get("description")
    ]
    bare += [
        f"{method} {path} {parameter['name']}"
        for method, path, operation in operations()
        for parameter in operation["parameters"]
        if "$ref" not in parameter and not parameter.get("description")
    ]
    for part in ("parameters", "headers", "responses", "securitySchemes"):
        bare += [
            name for name, of in schema["components"][part].items() if not of.get("description")
        ]
    bare += [
        f"{method} {path} {status}"
        for method, path, operation in operations()
        for status, response in responses_of(operation).items()
        if not response["description"]
    ]
    assert bare == []


def test_operation_ids_have_one_verb_for_each_kind_of_operation() -> None:
    seen = set()
    for method, path, operation in operations():
        parts = path.removeprefix("/v1/").split("/")
        name, resource = operation["operationId"], parts[0].replace("-", "_")
        seen.add(name)
        if len(parts) == 1 and "." not in resource and name.startswith(f"{resource}_"):
            assert name.removeprefix(f"{resource}_") in WITHOUT_ID[method], name
        elif len(parts) == 1:  # a file, such as /v1/retry.log
            assert name.startswith("renderings_get_"), name
        elif parts[-1] == "{id}":
            assert name.removeprefix(f"{resource}_") in WITH_ID[method], name
        elif method == "get":
            assert re.match(rf"{resource}_(list|get)_", name), name
        else:
            assert name.startswith(f"{resource}_"), name
            if parts[-1] == "bulk":
                assert name.endswith("_many")
    assert len(seen) == len(list(operations()))


def test_headers_are_described() -> None:
    for method, path, operation in operations():
        sent = [
            parameter["$ref"].rpartition("/")[2]
            for parameter in operation["parameters"]
            if "$ref" in parameter
        ]
        assert "RequestId" in sent
        has_version = not any(noun in path for noun in ("agents", "pools", "task-types"))
        assert ("IfMatch" in sent) == (method == "patch" and has_version), path
        assert ("IdempotencyKey" in sent) == bool(operation.get("x-idempotent")), path
        for status, response in responses_of(operation).items():
            headers = set(response["headers"])
            assert "X-Request-Id" in headers
            assert ("WWW-Authenticate" in headers) == (int(status) == 401)
            if int(status) in (429, 503):
                assert "Retry-After" in headers, path
            if int(status) < 300 and operation.get("x-idempotent"):
                assert "Idempotency-Replayed" in headers


def test_every_operation_lists_its_error_codes() -> None:
    for _, path, operation in operations():
        for code in operation["x-error-codes"]:
            response = responses_of(operation)[problem_kinds()[code].status]
            assert f"`{code}`" in response["description"], path
            problem = response["content"]["application/problem+json"]["example"]
            assert problem["status"] == problem_kinds()[code].status


@pytest.mark.django_db
def test_the_described_headers_are_sent(operator: Api, coder: Api, agent: Agent) -> None:
    task = enqueue(operator, max_attempts=1, on_exhausted="escalate")
    got = operator("GET", f"/tasks/{task}")
    assert got["ETag"] == f'"v{got.body["version"]}"'
    changed = operator("PATCH", f"/tasks/{task}", {"priority": 1}, If_Match=got["ETag"])
    assert changed["ETag"] != got["ETag"]
    attempt = coder("POST", "/claims").body["data"][0]["attempt"]["id"]
    exit_report = coder("POST", f"/attempts/{attempt}/exit/1", {})
    assert exit_report["Output-Limit"] == "65536"
    escalation = operator("GET", f"/tasks/{task}").body["escalation"]
    assert operator("GET", f"/escalations/{escalation}")["ETag"] == '"v1"'
    assigned = operator("POST", f"/escalations/{escalation}/assign", {"user": None})
    assert assigned["ETag"]
    aborted = operator("POST", f"/tasks/{task}/abort")
    assert aborted["ETag"] == f'"v{aborted.body["version"]}"'
