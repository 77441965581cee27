"""`manage.py token`: a secret alone on stdout."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from ledger.models import Agent, Token
from tests.conftest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]


def printed(**options: Any) -> str:
    out = StringIO()
    call_command("token", stdout=out, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["orchestrator", "operator", "reader"])
def test_it_prints_a_secret_that_works(kind: str) -> None:
    secret = printed(kind=kind).removesuffix("\n")
    assert Api(secret)("GET", "/me").body["kind"] == kind


def test_an_operators_token_may_manage_tokens() -> None:
    secret = printed(kind="operator", manage_tokens=True).strip()
    assert Api(secret)("GET", "/tokens").status_code == 200


def test_an_agents_token_makes_the_agent_known() -> None:
    secret = printed(kind="agent", agent="coder").strip()
    assert Api(secret)("GET", "/me").body["agent"] == "coder"
    assert Agent.objects.get().name == "coder"
    assert Token.objects.get().name == "coder"


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "agent"},
        {"kind": "operator", "agent": "coder"},
        {"kind": "orchestrator", "manage_tokens": True},
        {"kind": "operator", "project": "nowhere"},
        {"kind": "agent", "agent": " "},
        {"kind": "agent", "agent": "new", "account": "a\nb"},
    ],
)
def test_it_refuses_what_makes_no_sense(options: dict[str, str]) -> None:
    with pytest.raises(CommandError):
        printed(**options)
    assert not Token.objects.exists() and not Agent.objects.exists()
