"""Tokens: who may call what, and how a refusal reads."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ledger import tokens
from ledger.access import scopes
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Token
from tests.conftest import Api
from tests.factories import make_project, make_token
from tests.ledger.api.openapi import openapi_schema
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db

ANY_ID = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"


def test_every_operation_but_me_asks_for_a_scope() -> None:
    """`test_access` calls each of them without it."""
    without = {
        operation["operationId"]
        for methods in openapi_schema()["paths"].values()
        for operation in methods.values()
        if not set(operation.get("x-required-scopes", [])) & scopes.SCOPES
    }
    assert without == {"me_get"}


def test_without_a_token_the_way_to_send_one_is_named(db: None) -> None:
    response = Api()("GET", "/me")
    problem(response, 401, "token_missing")
    assert response["WWW-Authenticate"] == "Bearer"


def test_what_only_people_may_do_says_so(api: Callable[..., Api]) -> None:
    refused = api("orchestrator")("POST", f"/escalations/{ANY_ID}/resolve", {"action": "skip"})
    assert problem(refused, 403, "human_required")["scope"] == "escalations:resolve"


def test_acting_on_a_queue_needs_an_agents_token(operator: Api) -> None:
    for path, body in [("pull", {}), (f"{ANY_ID}/ack", {})]:
        told = problem(operator("POST", f"/instructions/{path}", body), 403, "scope_missing")
        assert "agent's token" in told["detail"]


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Basic abc", "Bearer x", "Bearer tenfour_agt_" + "0" * 30 + "_000000"]
)
def test_a_malformed_token_never_reaches_the_database(
    header: str, django_assert_num_queries: Any
) -> None:
    caller = Api()
    caller.headers = {"Authorization": header} if header else {}
    with django_assert_num_queries(0):
        response = caller("GET", "/me")
    missing = header in ("", "Bearer", "Basic abc")
    problem(response, 401, "token_missing" if missing else "token_invalid")


def test_expired_revoked_and_deleted_tokens_say_so(project: Any) -> None:
    secret = make_token("operator")
    token = Token.objects.get()
    Token.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    problem(Api(secret)("GET", "/me"), 401, "token_expired")
    assert tokens.revoke(token, stamp=Stamp(SYSTEM)) and not tokens.revoke(
        token, stamp=Stamp(SYSTEM)
    )
    problem(Api(secret)("GET", "/me"), 401, "token_revoked")
    problem(Api(secret)("POST", "/instructions/pull"), 401, "token_revoked")
    Token.objects.all().delete()
    problem(Api(secret)("GET", "/me"), 401, "token_invalid")


def test_failed_authentications_are_limited_but_right_tokens_never(operator: Api) -> None:
    for _ in range(10):
        problem(Api("wrong")("GET", "/me"), 401, "token_invalid")
    limited = Api("wrong")("GET", "/me")
    problem(limited, 429, "too_many_auth_failures")
    assert limited["Retry-After"] == "60"
    # the reason first: a wait does not make the token valid
    assert limited.body["detail"].startswith("This is not a Tenfour token: ")
    assert limited.body["retryable"] is False
    assert operator("GET", "/me").status_code == 200


def test_only_the_hash_of_a_token_is_kept(project: Any) -> None:
    secret = make_token("operator")
    row = Token.objects.values().get()
    assert secret not in str(row) and bytes(row["digest"]) == tokens.digest_of(secret)
    assert re.fullmatch(r"tenfour_opr_[0-9A-Za-z]{30}_[0-9A-Za-z]{6}", secret)


def test_one_wrong_character_fails_the_checksum() -> None:
    secret = tokens.new_secret(tokens.TokenKind.AGENT)
    swapped = secret[:12] + ("a" if secret[12] != "a" else "b") + secret[13:]
    with pytest.raises(tokens.TokenInvalid):
        tokens.digest_of(swapped)


def test_agents_and_orchestrators_can_never_answer_people_or_make_tokens() -> None:
    forbidden = {"escalations:resolve", "tokens:write"}
    for kind in ("agent", "orchestrator", "reader"):
        assert not scopes.PRESETS[tokens.TokenKind(kind)] & forbidden
    assert "tokens:write" not in scopes.PRESETS[tokens.TokenKind.OPERATOR]


def test_me_says_who_calls(api: Callable[..., Api], coder: Api) -> None:
    body = coder("GET", "/me").body
    assert (body["kind"], body["agent"], body["project"]["name"]) == ("agent", "coder", "default")
    assert api("reader")("GET", "/me").body["agent"] is None


def test_use_and_presence_are_noted(coder: Api, agent: Agent) -> None:
    coder("POST", "/instructions/pull")
    agent.refresh_from_db()
    assert agent.last_seen_at is not None and Token.objects.get().last_used_at is not None


def test_a_token_of_another_project_sees_another_world(agent: Agent) -> None:
    elsewhere = Api(make_token("operator", project=make_project("other")))
    response = elsewhere("POST", "/instructions", {"agent": "coder", "content": "x"})
    problem(response, 422, "unknown_agent")
    assert elsewhere("GET", "/agents").body["data"] == []
