"""Sessions, operations, policies, channels and webhooks in the Python client (AGT-22)."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tenfour import AsyncClient, Client, TenfourError
from tenfour.api.settings.policy_calls import Scope
from tenfour.http.core import Call

from tests.ledger.sessions.transcript_files import recorded
from tests.loops import run_coroutine
from tests.serving import ROOT, Tenfour
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

ID = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def operator(tenfour_server: Tenfour) -> Iterator[Client]:
    token = tenfour_server.token("operator")
    with Client(tenfour_server.url, token, timeout=PATIENCE_S) as client:
        yield client


def test_a_conversation_is_stored_and_read(agent_client: Client) -> None:
    made = agent_client.sessions.create(external_id="8c1f", title="Ids", tracker="none")
    assert agent_client.sessions.create(external_id="8c1f").id == made.id
    said = [{"role": "user", "content": "Fix it"}, {"role": "assistant", "content": "Fixed."}]
    stored = agent_client.sessions.store_messages(made.id, said)
    read = list(agent_client.sessions.messages(made.id))
    assert [each.id for each in read] == stored.message_ids
    assert [(each.role, each.content[0]["text"]) for each in read] == [
        ("user", "Fix it"),
        ("assistant", "Fixed."),
    ]
    assert agent_client.sessions.status(made.id).total == 2
    assert [each.title for each in agent_client.sessions.list(agent="coder")] == ["Ids"]


def test_a_transcript_is_imported_and_its_messages_are_flushed(agent_client: Client) -> None:
    imported = agent_client.sessions.import_lines(recorded("codex").decode())
    id = imported.session.id
    assert imported.created and imported.added == imported.messages == 13
    assert agent_client.sessions.flush(id) == 13
    # The agent's program refused its plan, so the conversation has no to-dos.
    assert [each.description for each in agent_client.sessions.tasks(id)] == []
    assert not agent_client.sessions.get(id).tasks["success"]
    assert agent_client.sessions.retry(id) == 0


def test_policies_are_changed_at_their_version(operator: Client) -> None:
    known = operator.policies.get()
    other: Scope = "plans" if known.obey_waits == "all" else "all"
    changed = operator.policies.change(known.version, obey_waits=other, reason="a trial")
    assert changed.obey_waits == other and operator.policies.get() == changed
    with pytest.raises(TenfourError) as refused:
        operator.policies.change(known.version, obey_waits="off")
    assert refused.value.status == 412


def test_a_channel_is_created_changed_and_deleted(operator: Client) -> None:
    made = operator.channels.create("on-call", "ntfys://ntfy.sh/our-topic")
    changed = operator.channels.change(made.id, made.version, include_details=True)
    assert (made.include_details, changed.include_details) == (False, True)
    assert operator.channels.disable(made.id).state == "disabled"
    assert operator.channels.enable(made.id).state == "active"
    operator.channels.delete(made.id)
    assert list(operator.channels.list()) == []


def test_operations_are_listed(operator: Client) -> None:
    assert list(operator.operations.list(state=["waiting", "running"])) == []
    with pytest.raises(TenfourError) as refused:
        operator.operations.get(ID)
    assert refused.value.status == 404


def test_the_asynchronous_client_has_them_too(
    tenfour_server: Tenfour, agent_client: Client
) -> None:
    token = tenfour_server.token("operator")

    async def read() -> None:
        async with AsyncClient(tenfour_server.url, token, timeout=PATIENCE_S) as client:
            made = await client.sessions.create(agent="coder", title="Ids")
            assert [each.id async for each in client.sessions.list()] == [made.id]
            assert (await client.policies.get()).version

    run_coroutine(read())


# What each method calls with these arguments.
CALLS: dict[str, tuple[Any, ...]] = {
    "sessions.link_task": (ID, 1),
    "sessions.store_messages": (ID, []),
    "sessions.import_lines": ("",),
    "sessions.call_tools": (ID, []),
    "channels.create": ("a", "b"),
    "channels.change": (ID, 1),
    "webhooks.create": ("a", "b"),
    "webhooks.change": (ID, 1),
    "webhooks.redeliver": (ID, "2026-01-01", "2026-01-02"),
    "policies.change": (1,),
}
WITHOUT_ID = {"list", "create", "tools"}


def test_every_operation_of_the_api_has_a_method() -> None:
    paths = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    prefixes = [f"/v1/{name}" for name in ("sessions", "operations", "policies", "webhooks")]
    prefixes.append("/v1/notification-channels")
    known = {
        (method.upper(), path.replace("{id}", ID).replace("{order}", "1"))
        for path, methods in paths.items()
        for method in methods
        if any(path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes)
    }
    client = Client("http://127.0.0.1:1", "tenfour_x")
    called = set()
    for noun in ("sessions", "operations", "policies", "webhooks", "channels"):
        group = type(getattr(client, noun))
        for name in [name for name in vars(group) if not name.startswith("_")]:
            build: Callable[..., Call[Any]] = getattr(group, name)
            id = () if name in WITHOUT_ID or noun == "policies" else (ID,)
            call = build(*CALLS.get(f"{noun}.{name}", id))
            called.add((call.method, call.path))
    assert called == known
