"""What a provider may send that is not as the standard says (SEC-10, SEC-11)."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from pytest_django import Settings

from config.single_sign_on import build_settings
from dashboard.sign_in.single_sign_on import FAILED
from ledger.models import Membership, Project
from tests.dashboard.seen import html

pytestmark = pytest.mark.django_db
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
FOREIGN = rsa.generate_private_key(public_exponent=65537, key_size=2048)
GOOD = {"sub": "kim", "preferred_username": "kim", "groups": ["staff"]}


@dataclass
class Provider:
    """A provider on loopback that says what a test wants."""

    url: str = ""
    userinfo: Any = field(default_factory=lambda: dict(GOOD))
    in_token: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    sign: Callable[[dict[str, Any]], Any] = lambda claims: sign(claims)

    def answer(self, path: str) -> Any:
        if path.endswith("openid-configuration"):
            names = ("authorization", "token", "userinfo")
            found = {f"{name}_endpoint": f"{self.url}/{name}" for name in names}
            return found | {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"} | self.config
        if path == "/jwks":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
            return {"keys": [public | {"kid": "1", "use": "sig", "alg": "RS256"}]}
        if path == "/userinfo":
            return self.userinfo
        claims = {"iss": self.url, "aud": "tenfour", "exp": int(time.time()) + 60, "sub": "kim"}
        token = self.sign(claims | self.in_token)
        return {"access_token": "x", "token_type": "Bearer"} | (
            {"id_token": token} if token else {}
        )


def sign(claims: dict[str, Any], key: Any = KEY, alg: str = "RS256", kid: str = "1") -> str:
    return jwt.encode(claims, key, algorithm=alg, headers={"kid": kid})


@pytest.fixture
def provider(settings: Settings) -> Iterator[Provider]:
    found = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.dumps(found.answer(urlsplit(self.path).path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        settings.TENFOUR = settings.TENFOUR | {
            "OIDC_ISSUER": found.url,
            "OIDC_NAME": "Acme SSO",
            "OIDC_GROUPS": "staff=default:viewer",
        }
        app = {
            "provider_id": "sso",
            "name": "Acme SSO",
            "client_id": "tenfour",
            "secret": "s" * 32,
            "settings": {"server_url": found.url},
        }
        settings.SOCIALACCOUNT_PROVIDERS = {
            "openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}
        }
        yield found
        server.shutdown()


def sign_in(client: Client, **query: str) -> Any:
    start = client.get("/sign-in/sso/", query)
    if start["Location"] == "/sign-in/":
        return start
    state = parse_qs(urlsplit(start["Location"]).query)["state"][0]
    return client.get("/sign-in/sso/callback/", {"code": "x", "state": state})


def check_refused(client: Client, response: Any) -> None:
    assert (response.status_code, response["Location"]) == (302, "/sign-in/")
    assert FAILED in html(client.get("/sign-in/"))
    assert "_auth_user_id" not in client.session and not User.objects.exists()


def test_a_provider_that_keeps_to_the_standard_signs_in(
    provider: Provider, project: Project
) -> None:
    """So the refusals below are about what differs from this."""
    client = Client()
    assert sign_in(client, next="/tasks/")["Location"] == "/tasks/"
    assert Membership.objects.get().user.username == "kim"


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"sub": {"id": "kim"}},
        {"sub": ["kim"]},
        {"sub": "k" * 5000},
        {"sub": "k\0im"},
        {"preferred_username": "k\0im"},
        {"name": "K\0im"},
        {"name": {"first": "Kim"}},
        {"email": 5},
        {"groups": 5},
        {"groups": {"staff": True}},
        {"groups": ["staff", 5]},
        {"groups": ["st\0aff"]},
    ],
    ids=str,
)
def test_claims_that_are_not_as_they_must_be_are_refused(
    provider: Provider, project: Project, claims: dict[str, Any]
) -> None:
    """In the ID token and at the userinfo endpoint."""
    client = Client()
    provider.userinfo |= claims
    if isinstance(claims.get("sub"), str):
        provider.in_token = {"sub": claims["sub"]}
    check_refused(client, sign_in(client))


@pytest.mark.parametrize("userinfo", [None, 5, "kim", [], {}, {"sub": "another"}], ids=str)
def test_an_identity_of_another_kind_is_refused(
    provider: Provider, project: Project, userinfo: Any
) -> None:
    client = Client()
    provider.userinfo = userinfo
    check_refused(client, sign_in(client))


def test_long_names_and_addresses_are_cut(provider: Provider, project: Project) -> None:
    """They do not decide who a person is."""
    long = {"name": "K" * 5000, "given_name": "K" * 5000, "preferred_username": "k" * 5000}
    provider.userinfo |= long | {"email": f"{'k' * 5000}@example.com", "email_verified": True}
    client = Client()
    assert sign_in(client, next="/tasks/")["Location"] == "/tasks/"
    assert len(User.objects.get().username) <= 150 and not User.objects.get().email


SIGNATURES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "none": lambda claims: jwt.encode(claims, "", algorithm="none", headers={"kid": "1"}),
    "a password": lambda claims: sign(claims, "s" * 32, "HS256"),
    "another password": lambda claims: sign(claims, "x" * 32, "HS256"),
    "a foreign key": lambda claims: sign(claims, FOREIGN),
    "an unknown key": lambda claims: sign(claims, kid="2"),
    "another algorithm": lambda claims: sign(claims, alg="RS512"),
    "no token": lambda claims: None,
    "a number": lambda claims: 5,
    "no JWT": lambda claims: "x.y.z",
    "a changed token": lambda claims: sign(claims)[:-8] + "AAAAAAAA",
    "no subject": lambda claims: sign({k: v for k, v in claims.items() if k != "sub"}),
    "no end": lambda claims: sign({k: v for k, v in claims.items() if k != "exp"}),
    "ended": lambda claims: sign(claims | {"exp": 1}),
    "of another issuer": lambda claims: sign(claims | {"iss": "https://evil.example"}),
    "for another client": lambda claims: sign(claims | {"aud": "another"}),
}


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize("name", SIGNATURES)
def test_a_token_that_the_provider_did_not_sign_is_refused(
    provider: Provider, project: Project, name: str
) -> None:
    """The signature is checked with the keys that the provider publishes."""
    client = Client()
    provider.sign = SIGNATURES[name]
    check_refused(client, sign_in(client))


@pytest.mark.parametrize(
    "config",
    [
        {"token_endpoint": "http://id.example.com/token"},
        {"userinfo_endpoint": None},
        {"jwks_uri": 5},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    ids=str,
)
def test_an_endpoint_that_is_not_protected_is_refused(
    provider: Provider, project: Project, config: dict[str, Any]
) -> None:
    """The start of signing in answers so, too."""
    client = Client()
    provider.config = config
    check_refused(client, sign_in(client))


def test_a_provider_that_is_away_is_a_sentence(provider: Provider, settings: Settings) -> None:
    client = Client()
    (app,) = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
    app["settings"]["server_url"] = "http://127.0.0.1:1"
    check_refused(client, sign_in(client))


def test_a_person_who_is_signed_in_connects_nothing(
    provider: Provider, project: Project, mara: User
) -> None:
    """`process=connect` is not taken: it is signing in, as the provider's identity."""
    client = Client()
    client.force_login(mara)
    answer = sign_in(client, process="connect", next="/tasks/")
    assert answer["Location"] == "/tasks/"
    assert client.session["_auth_user_id"] != str(mara.pk)


@pytest.mark.parametrize(
    ("issuer", "is_taken"),
    [
        ("https://id.example.com", True),
        ("http://localhost:9000", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:9000", True),
        ("http://id.example.com", False),
        ("http://localhost.example.com", False),
        ("http://10.0.0.1", False),
        ("ftp://id.example.com", False),
        ("id.example.com", False),
        ("https://", False),
        ("http://[::1", False),
    ],
)
def test_an_issuer_must_be_protected(issuer: str, is_taken: bool) -> None:
    """The start and `manage.py check` refuse http://, but for a provider on this machine."""
    tenfour = {
        "OIDC_GROUPS": "",
        "OIDC_ISSUER": issuer,
        "OIDC_CLIENT_ID": "tenfour",
        "OIDC_NAME": "Acme SSO",
    }
    if is_taken:
        assert build_settings(tenfour, str, is_secure=True)
        return
    with pytest.raises(ImproperlyConfigured, match="must begin with https://"):
        build_settings(tenfour, str, is_secure=True)
