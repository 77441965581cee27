"""Tokens over HTTP."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ledger import tokens
from ledger.access import scopes
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, IdempotencyKey, Token
from ledger.models.token import TokenKind
from tests.conftest import Api
from tests.factories import make_project, make_token
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def manager(db: None) -> Api:
    """An operator's token that may manage tokens."""
    return Api(make_token("operator", manages_tokens=True))


def test_a_token_is_created_used_listed_and_revoked(manager: Api, agent: Agent) -> None:
    made = manager("POST", "/tokens", {"kind": "agent", "agent": "coder", "name": "ci"})
    assert made.status_code == 201
    secret, id = made.body.pop("secret"), made.body["id"]
    assert (made.body["name"], made.body["agent_id"]) == ("ci", str(agent.id))
    assert Api(secret)("GET", "/me").body["agent"] == "coder"
    listed = manager("GET", "/tokens")
    assert len(listed.body["data"]) == 2 and listed.body["data"][0]["id"] == id
    assert secret not in listed.content.decode()
    revoked = manager("DELETE", f"/tokens/{id}").body
    assert revoked["revoked_at"] is not None
    problem(Api(secret)("GET", "/me"), 401, "token_revoked")
    assert manager("DELETE", f"/tokens/{id}").body == revoked
    assert manager("GET", f"/tokens/{id}").body == revoked
    kinds = Event.objects.filter(subject_id=id).order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["token.created", "token.revoked"]


def test_a_secret_is_never_stored_for_a_replay(manager: Api) -> None:
    for _ in range(2):
        made = manager("POST", "/tokens", {"kind": "reader"}, Idempotency_Key="k")
        assert made.status_code == 201
    assert Token.objects.filter(kind="reader").count() == 2
    assert not IdempotencyKey.objects.exists()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"kind": "agent"}, "/agent"),
        ({"kind": "reader", "agent": "coder"}, "/agent"),
        ({"kind": "root"}, "/kind"),
        ({"kind": "reader", "expires_in_days": 0}, "/expires_in_days"),
        ({"kind": "reader", "scopes": ["tokens:write"]}, "/scopes"),
        ({"kind": "reader", "scopes": []}, "/scopes"),
    ],
)
def test_an_impossible_token_is_refused(manager: Api, body: Any, pointer: str) -> None:
    refused = problem(manager("POST", "/tokens", body), 422, "validation_error")
    assert refused["errors"][0]["pointer"] == pointer
    assert Token.objects.count() == 1


def test_a_token_can_register_its_agent(manager: Api) -> None:
    body = {"kind": "agent", "agent": "new", "expires_in_days": 7}
    problem(manager("POST", "/tokens", body), 422, "unknown_agent")
    made = manager("POST", "/tokens", body | {"register": True}).body
    left = Token.objects.get(pk=made["id"]).expires_at - timezone.now()  # type: ignore[operator]
    assert timedelta(days=6) < left <= timedelta(days=7)


def test_only_a_granted_operators_token_manages_tokens(manager: Api) -> None:
    for kind in TokenKind.values:
        with_agent = {"agent": "coder", "register": True} if kind == "agent" else {}
        made = manager("POST", "/tokens", {"kind": kind, **with_agent}).body
        assert scopes.TOKENS_WRITE not in made["scopes"]
        problem(Api(made["secret"])("GET", "/tokens"), 403, "scope_missing")
        problem(Api(made["secret"])("POST", "/tokens", {"kind": "reader"}), 403, "scope_missing")
        if kind != TokenKind.OPERATOR:
            with pytest.raises(ValueError, match="operator"):
                tokens.issue(kind, project=make_project(), manages_tokens=True, stamp=Stamp(SYSTEM))


def test_tokens_of_other_projects_do_not_exist(manager: Api) -> None:
    make_token("operator", project=make_project("other"))
    foreign = Token.objects.get(project__name="other").pk
    for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/rotate")]:
        problem(manager(method, f"/tokens/{foreign}{path}"), 404, "not_found")
    assert len(manager("GET", "/tokens").body["data"]) == 1


def test_a_rotated_token_works_beside_its_successor_for_a_while(manager: Api) -> None:
    old = manager("POST", "/tokens", {"kind": "reader", "name": "ci", "expires_in_days": 30}).body
    new = manager("POST", f"/tokens/{old['id']}/rotate", {"overlap_hours": 2})
    assert new.status_code == 201 and new.body["id"] != old["id"]
    assert (new.body["name"], new.body["scopes"]) == ("ci", old["scopes"])
    for secret in (old["secret"], new.body["secret"]):
        assert Api(secret)("GET", "/me").status_code == 200
    row, successor = Token.objects.get(pk=old["id"]), Token.objects.get(pk=new.body["id"])
    assert row.expires_at and row.expires_at <= timezone.now() + timedelta(hours=2)
    assert successor.expires_at == successor.created_at + timedelta(days=30)
    assert Event.objects.get(kind="token.rotated").subject_id == row.pk
    last = manager("POST", f"/tokens/{old['id']}/rotate", {"overlap_hours": 0}).body
    problem(Api(old["secret"])("GET", "/me"), 401, "token_expired")
    problem(manager("POST", f"/tokens/{old['id']}/rotate"), 409, "invalid_transition")
    manager("DELETE", f"/tokens/{last['id']}")
    problem(manager("POST", f"/tokens/{last['id']}/rotate"), 409, "invalid_transition")


def test_a_token_has_only_the_chosen_scopes(manager: Api, agent: Agent) -> None:
    chosen = {"scopes": ["tasks:read", "agents:read", "tasks:read"]}
    made = manager("POST", "/tokens", {"kind": "operator"} | chosen).body
    assert made["scopes"] == ["agents:read", "tasks:read"]
    caller = Api(made["secret"])
    assert caller("GET", "/tasks").status_code == 200
    refused = problem(caller("GET", "/events"), 403, "scope_missing")
    assert refused["scope"] == "events:read"
    assert "lacks the scope 'tasks:create'" in str(
        problem(caller("POST", "/tasks", {"type": "code", "agent": "coder"}), 403, "scope_missing")
    )
    created = Event.objects.get(kind="token.created", subject_id=made["id"])
    assert created.data["scopes"] == ["agents:read", "tasks:read"]
    rotated = manager("POST", f"/tokens/{made['id']}/rotate").body
    assert rotated["scopes"] == made["scopes"]


def test_an_agents_statements_see_its_scopes(manager: Api, agent: Agent) -> None:
    """Claims look the token up in their own statement."""
    body = {"kind": "agent", "agent": "coder", "scopes": ["instructions:read"]}
    caller = Api(manager("POST", "/tokens", body).body["secret"])
    refused = problem(caller("POST", "/claims"), 403, "scope_missing")
    assert refused["scope"] == "tasks:work"
    problem(caller("POST", "/signals", {"type": "done"}), 403, "scope_missing")


@pytest.mark.parametrize(
    ("kind", "scope"),
    [("reader", "tasks:write"), ("agent", "escalations:resolve"), ("operator", "tokens:write")],
)
def test_a_scope_of_another_kind_is_refused(manager: Api, kind: str, scope: str) -> None:
    body = {"kind": kind, "scopes": ["tasks:read", scope]}
    refused = problem(manager("POST", "/tokens", body), 422, "validation_error")
    assert refused["errors"][0]["pointer"] == "/scopes" and f"'{scope}'" in str(refused)


def test_no_token_hands_out_a_scope_that_it_lacks(manager: Api, agent: Agent) -> None:
    full = manager("POST", "/tokens", {"kind": "operator"}).body
    limited = Api(make_token("operator", manages_tokens=True, scopes=["tasks:read"]))
    for body in ({"kind": "operator"}, {"kind": "reader"}):
        problem(limited("POST", "/tokens", body), 403, "scope_missing")
    refused = problem(limited("POST", f"/tokens/{full['id']}/rotate"), 403, "scope_missing")
    assert refused["scope"] == "agents:read"
    made = limited("POST", "/tokens", {"kind": "reader", "scopes": ["tasks:read"]})
    assert made.body["scopes"] == ["tasks:read"]
