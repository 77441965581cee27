"""Walk every way in that takes a text with a text of secrets, and look into every table (SEC-7).

The ways come from the API's description, the addresses of pages, the registry of bulk operations,
the admin's actions and the tools, and the fields from their schemas and templates: a new one is
walked by itself. A text is made of tokens alone, so that half of one is left wherever a verb cuts a
text before it masks it.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from importlib import import_module
from itertools import chain, product
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.utils import timezone

from config.mcp.catalog import TOOLS
from dashboard.urls import urlpatterns
from ledger.errors import Refusal
from ledger.models import Agent, Task
from retries.operations.registry import VERBS
from tests.access_world import World, make_world
from tests.dashboard.test_roles import NEEDS, list_forms, path_of
from tests.factories import make_agent, make_token
from tests.ledger.api import test_access as api_walk
from tests.ledger.api.openapi import openapi_schema
from tests.retries import test_admin_access as admin_walk
from tests.retries.operations import worlds
from tests.secret_texts import (
    LEFT,
    TOKEN,
    fill,
    find_secrets,
    form_fields,
    list_fields,
    put,
    read_fields,
)

pytestmark = pytest.mark.django_db

HEADERS = ("Idempotency-Key", "X-Request-Id", "User-Agent", "traceparent", "tracestate", "Referer")
Found = list[tuple[Any, ...]]


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def world(agent: Agent, now: datetime) -> World:
    return make_world(agent, now)


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that is walked logs a token."""
    caplog.set_level(logging.DEBUG)
    yield
    assert not LEFT.search(caplog.text)


def list_lines(found: Found) -> str:
    return "\n".join(dict.fromkeys(str(each) for each in found))


def attempt(found: Found, where: tuple[Any, ...], call: Callable[[], int]) -> bool:
    """Make a call, look into all tables, undo it, and return whether it was taken."""
    cache.clear()  # the limits
    with transaction.atomic():
        status = call()
        if left := find_secrets():
            found.append((*where, status, left))
        transaction.set_rollback(True)
    return status < 400


def test_a_text_with_a_secret_is_found_where_it_is_left(world: World) -> None:
    """The walks would notice: a column that keeps the start of a token is named."""
    assert find_secrets() == set()
    Task.objects.filter(pk=world.ids["task_id"]).update(title=fill()[:100])
    ((table, column, text),) = find_secrets()
    assert (table, column) == ("ledger_task", "title") and TOKEN.startswith(text[:8])


# ---- the API


def list_secrets() -> dict[str, str]:
    """Return a token of each kind that the API's operations need, by the operations."""
    secrets = {
        "agent": make_token("agent", agent=Agent.objects.get(name="coder")),
        "orchestrator": make_token("orchestrator"),
        "operator": make_token("operator"),
        "reader": make_token("reader"),
        "manager": make_token("operator", manages_tokens=True),
    }
    return {
        name: secrets[kinds.split()[-1] if "operator" in kinds else kinds.split()[0]]
        for kinds, names in api_walk.MAY.items()
        for name in names
    }


# the nouns with the most fields, and the others together
NOUNS = ("tasks", "attempts", "plans", "sessions", "standing-instructions", "webhooks")
OTHERS = "others"


def noun_of(path: str) -> str:
    noun = path.split("/")[1]
    return noun if noun in NOUNS else OTHERS


@pytest.mark.parametrize("noun", [*NOUNS, OTHERS])
def test_no_operation_of_the_api_keeps_a_secret(world: World, noun: str) -> None:
    schema, secrets = openapi_schema(), list_secrets()
    shared = schema["components"]["schemas"]
    calls = [call for call in api_walk.list_calls(world.ids) if noun_of(call.path) == noun]
    described = {
        operation["operationId"]: operation
        for methods in schema["paths"].values()
        for operation in methods.values()
    }
    found: Found = []
    taken: set[str] = set()
    walked = 0
    for call in calls:
        content = described[call.name].get("requestBody", {}).get("content", {})
        bodies: list[tuple[Any, Any]] = []
        if isinstance(call.body, str):
            marks = ("zebra", "done", "Hi")
            bodies = [
                (mark, call.body.replace(mark, fill())) for mark in marks if mark in call.body
            ]
        elif "application/json" in content:
            media = content["application/json"]
            for path, length in list_fields(media["schema"], shared):
                for base in (call.body, media["example"]):
                    for size in {min(length, 60), length}:
                        bodies.append((path, put(base, path, fill(size))))
        for path, body in bodies:
            walked += 1
            made = call._replace(body=body)
            if attempt(
                found,
                (call.name, path),
                lambda made=made: api_walk.send(secrets[made.name], made, undo=False).status,
            ):
                taken.add(call.name)
    assert not found, list_lines(found)
    named = {call.name for call in calls if call.method in ("POST", "PATCH") and call.body}
    assert walked > 20 and len(taken) > len(named) / 2, named - taken


def test_no_header_is_kept_with_a_secret(world: World) -> None:
    secrets, found = list_secrets(), []
    for call, header in product(api_walk.list_calls(world.ids), HEADERS):
        if call.name not in ("tasks_create", "claims_create", "instructions_pull", "me_get"):
            continue
        made = call._replace(headers=call.headers | {header: f"API_KEY={TOKEN}"})
        secret = secrets[call.name]
        attempt(
            found,
            (call.name, header),
            lambda made=made, secret=secret: api_walk.send(secret, made, undo=False).status,
        )
    assert not found, list_lines(found)


def test_an_idempotency_key_with_a_secret_is_a_key(operator: Any, agent: Agent) -> None:
    """Two keys that differ in their secrets alone are two keys."""
    body = {"agent": "coder", "type": "code"}
    keys = [f"API_KEY={TOKEN}", f"API_KEY={TOKEN}", f"API_KEY={TOKEN[:-1]}x"]
    sent = [operator("POST", "/tasks", body, Idempotency_Key=key) for key in keys]
    assert [each.get("Idempotency-Replayed") for each in sent] == [None, "true", None]
    assert Task.objects.count() == 2 and find_secrets() == set()


def test_workers_whose_names_hold_secrets_are_told_apart(coder: Any, operator: Any) -> None:
    for _ in range(2):
        assert operator("POST", "/tasks", {"agent": "coder", "type": "code"}).status_code == 201
    names = [f"API_KEY={TOKEN}", f"API_KEY={TOKEN}", f"API_KEY={TOKEN[:-1]}x"]
    claims = [coder("POST", "/claims", {"worker_id": name}).body["data"] for name in names]
    first, again, other = (claim[0]["attempt"]["id"] for claim in claims)
    assert first == again != other and find_secrets() == set()


# ---- the tools


def test_no_tool_keeps_a_secret(world: World) -> None:
    """The arguments of each tool, one after the other."""
    secrets = {"agent": make_token("agent", agent=world.agent), "operator": make_token("operator")}
    base: dict[str, dict[str, Any]] = {
        "heartbeat": {"attempt_id": str(world.ids["attempt_id"])},
        "report_result": {"attempt_id": str(world.ids["attempt_id"]), "status": "failure"},
        "release_task": {"attempt_id": str(world.ids["attempt_id"])},
        "ask_human": {"attempt_id": str(world.ids["attempt_id"]), "question": "Which?"},
        "ack_instruction": {"id": str(world.ids["delivered_id"])},
        "create_task": {"agent": "coder", "type": "code"},
        "send_instruction": {"agent": "coder", "content": "Look"},
    }
    client = Client()
    found: Found = []
    walked = 0
    for tool in TOOLS:
        schema = tool.arguments.model_json_schema()
        for path, length in list_fields(schema, schema.get("$defs", {})):
            kind = "operator" if "import" in tool.name else "agent"
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {
                    "name": tool.name,
                    "arguments": put(base.get(tool.name, {}), path, fill(length)),
                },
            }
            headers = {
                "Authorization": f"Bearer {secrets[kind]}",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2025-11-25",
            }
            walked += 1
            attempt(
                found,
                (tool.name, path),
                lambda body=body, headers=headers: (
                    client.post(
                        "/mcp", json.dumps(body), content_type="application/json", headers=headers
                    ).status_code
                ),
            )
    assert not found, list_lines(found)
    assert walked > 20


# ---- the pages


def list_verbs(name: str) -> list[str]:
    """Return the verbs of an action's address; all of its room's, where it has several."""
    pattern = next(each for each in urlpatterns if each.name == name)
    room = str(pattern.callback.__module__)
    verbs = getattr(import_module(room), "VERBS", {}) if "<slug:verb>" in str(pattern) else {}
    return [str(each) for each in verbs]


# what a form says of rows and of itself; the others are texts
NO_TEXTS = {"csrfmiddlewaretoken", "confirmed", "version", "action", "id", "one", "all"}


def list_paths(world: World, name: str) -> list[str]:
    """Return the addresses of an action, one for each of its verbs."""
    path = path_of(world, name)
    start = path.rstrip("/").rpartition("/")[0]
    return list(dict.fromkeys([path, *(f"{start}/{verb}/" for verb in list_verbs(name))]))


def list_rooms() -> dict[str, list[str]]:
    """Return the names of the actions of each folder of pages."""
    rooms: dict[str, list[str]] = {}
    for name in chain.from_iterable(NEEDS.values()):
        if name not in ("home", "first_steps"):
            pattern = next(each for each in urlpatterns if each.name == name)
            rooms.setdefault(str(pattern.callback.__module__).split(".")[1], []).append(name)
    return rooms


@pytest.mark.parametrize("room", sorted(list_rooms()))
def test_no_form_keeps_a_secret(world: World, room: str) -> None:
    """All texts of a form at once or, where that is refused, one after the other."""
    client = Client()
    client.force_login(User.objects.create_user("root", is_staff=True, is_superuser=True))
    forms = {name: [form] for name, form in list_forms(world.ids).items()}
    forms["escalation_answer"].append({"action": "fix", "version": "1"})
    found: Found = []
    posted: list[str] = []
    taken: set[str] = set()

    def post(path: str, form: Mapping[str, Any], fields: list[str], size: int) -> bool:
        """Post all texts; the form's own values win, so that it is not refused for them."""
        texts = dict.fromkeys(fields, fill(size))
        return attempt(found, (path, size), lambda: client.post(path, texts | form).status_code)

    def post_each(path: str, form: Mapping[str, Any], fields: list[str], size: int) -> bool:
        return attempt(
            found,
            (path, size, "each"),
            lambda: min(
                (client.post(path, {**form, field: fill(size)}).status_code for field in fields),
                default=404,
            ),
        )

    fields = [field for field in form_fields(room) if field not in NO_TEXTS]
    read = [field for field in read_fields(room) if field not in NO_TEXTS] or fields[:1]
    for name in list_rooms()[room]:
        for path in list_paths(world, name):
            with transaction.atomic():
                takes_posts = client.post(path).status_code != 405
                transaction.set_rollback(True)
            if not takes_posts:
                continue
            posted.append(path)
            for form in forms.get(name, [{}]):
                form = {"confirmed": "yes", **form}
                for size in (60, 9000):
                    if post(path, form, fields, size) or post_each(path, form, read, size):
                        taken.add(name)
    assert not found, list_lines(found)
    assert taken or not posted, posted


# ---- operations on many rows


def test_no_operation_on_many_rows_keeps_a_secret(world: World, now: datetime) -> None:
    found: Found = []
    make_agent("other")
    User.objects.create_user("root", is_staff=True, is_superuser=True)
    texts = {"fix": fill(4000), "note": fill(1900), "reason": fill()}
    later = now + timedelta(hours=1)
    for name, action in product(VERBS, ("fix", "skip")):
        options = texts | {"action": action, "priority": 1, "agent": "other"}
        options |= {"of": str(world.agent.pk), "abort": "", "until": later.isoformat()}
        options |= {"user": "root"}
        if name == "escalation.answer" and action == "skip":
            options.pop("fix")

        def start(name: str = name, options: Mapping[str, Any] = options) -> int:
            rows = VERBS[name].model._default_manager.all()
            try:
                made = worlds.start(name, rows, now=now, options=dict(options), reason=fill())
            except Refusal:
                return 422
            assert find_secrets() == set(), "before it runs"
            worlds.run(made, now=now + timedelta(minutes=1))
            return 200

        assert attempt(found, (name, action), start) or name == "task.unblock"
    assert not found, list_lines(found)


# ---- the admin


def test_no_action_of_the_admin_keeps_a_secret(world: World) -> None:
    client = admin_walk.sign_in("root", is_staff=True, is_superuser=True)
    found: Found = []
    texts = {"fix": fill(4000), "system_text": fill(4000), "note": fill(), "reason": fill()}
    for model, page in admin.site._registry.items():
        row = model._default_manager.order_by("pk").first()
        for action in getattr(page, "actions", None) or ():
            if row is None:
                continue
            data = texts | {"action": str(action), "confirmed": "yes"}
            path = admin_walk.path_of(model, f"{row.pk}/change/")
            attempt(
                found,
                (model._meta.label, action),
                lambda path=path, data=data: client.post(path, data).status_code,
            )
    assert not found, list_lines(found)
