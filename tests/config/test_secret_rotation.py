"""Secrets change while everything runs: the secret key, webhook secrets, and tokens."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from ledger.journal import SYSTEM, Stamp
from ledger.models import SignIn, Token
from ledger.people.browsers import end_browsers, signed_in
from ledger.secrets import encryption
from retries.models import Channel
from retries.notifications import channels, signatures
from retries.notifications.channels import ChannelSpec, Created
from tests.conftest import Api
from tests.factories import make_project

pytestmark = pytest.mark.django_db
PASSWORD = "tenfour-tenfour-tenfour"
OLD, NEW = "o" * 50, "n" * 50
# the keys of a process at each step: what signs, and what is read besides
BEFORE, PREPARED, SWITCHED, AFTER = (OLD, []), (OLD, [NEW]), (NEW, [OLD]), (NEW, [])
# While processes are replaced one after another, a request meets either of two steps.
ROLLING = [BEFORE, PREPARED, BEFORE, PREPARED, SWITCHED, PREPARED, SWITCHED]

Keys = tuple[str, list[str]]


@pytest.fixture
def use(settings: Settings) -> Callable[[Keys], None]:
    """Return a function by which this process has the keys of a step."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

    def change(keys: Keys) -> None:
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = keys

    return change


def sign_in() -> Client:
    client = Client()
    sent = client.post("/sign-in/", {"username": "mara", "password": PASSWORD})
    assert sent.status_code == 302
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/").status_code == 200


def session_of(client: Client) -> str:
    return client.cookies["tenfour_session"].value


def test_people_stay_signed_in_while_the_secret_key_changes(use: Callable[[Keys], None]) -> None:
    User.objects.create_superuser("mara", password=PASSWORD)
    use(BEFORE)
    early, absent = sign_in(), sign_in()
    session = session_of(early)
    for keys in ROLLING:
        use(keys)
        assert is_signed_in(early), keys
        assert early.get("/admin/").status_code == 200
        assert session_of(early) == session, "what another tab asks for now is signed out"
    cache.clear()  # what is read from the database is signed, too
    use(PREPARED)
    assert is_signed_in(early)
    use(SWITCHED)
    assert is_signed_in(early)
    late = sign_in()
    for keys in (PREPARED, SWITCHED, AFTER):
        use(keys)
        assert is_signed_in(late), keys
    assert is_signed_in(early)
    assert not is_signed_in(absent), "it was not back before the old key was removed"
    assert signed_in(timezone.now()).filter(session_key=session).exists()
    end_browsers(SignIn.objects.filter(session_key=session))
    assert not is_signed_in(early) and is_signed_in(late)


def test_a_session_of_an_unknown_key_is_refused(use: Callable[[Keys], None]) -> None:
    """Earlier keys count as long as they are configured, and none that never was."""
    User.objects.create_superuser("mara", password=PASSWORD)
    use(BEFORE)
    client = sign_in()
    use((NEW, ["x" * 50]))
    assert not is_signed_in(client)


def make_webhook(name: str) -> Created:
    spec = ChannelSpec(kind="webhook", name=name, url="https://93.184.216.34/hook")
    return channels.create_channel(spec, project=make_project(), stamp=Stamp(SYSTEM))


def test_channels_are_read_at_every_step(
    use: Callable[[Keys], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What one process stores its neighbor reads; the command leaves nothing to the old key."""
    made: list[Created] = []

    def all_are_read() -> bool:
        now = timezone.now()
        found = [Channel.objects.get(pk=each.channel.pk) for each in made]
        return [channels.signing_secrets_of(each, now=now) for each in found] == [
            [each.secret] for each in made
        ]

    for number, keys in enumerate(ROLLING):
        use(keys)
        assert all_are_read(), keys
        if keys != BEFORE or not number:
            made.append(make_webhook(f"hook {number}"))
    use(AFTER)
    with pytest.raises(encryption.Unreadable):
        all_are_read()
    with pytest.raises(CommandError, match="add the earlier key to TENFOUR_SECRET_KEY_FALLBACKS"):
        call_command("reencrypt_channels")
    use(SWITCHED)
    call_command("reencrypt_channels")
    stored = sum(keys[0] == OLD for keys in ROLLING) - ROLLING[1:].count(BEFORE)
    assert capsys.readouterr().out == f"{stored} channels encrypted again\n"
    use(AFTER)
    assert all_are_read()


def test_several_webhook_secrets_sign_at_once() -> None:
    """Before, while and after a receiver learns a new secret, it verifies what it gets."""
    made, now = make_webhook("hook"), timezone.now()
    secrets = [made.secret]
    for hours in (48, 24):
        _, secret = channels.rotate_secret(made.channel.pk, stamp=Stamp(SYSTEM, now), hours=hours)
        secrets.append(secret)
    hour = timedelta(hours=1)
    assert verified(made.channel.pk, secrets, now=now) == [True, True, True]
    assert verified(made.channel.pk, secrets, now=now + 25 * hour) == [True, False, True]
    assert verified(made.channel.pk, secrets, now=now + 49 * hour) == [False, False, True]


def verified(channel_id: UUID, secrets: list[str], *, now: Any) -> list[bool]:
    """Return by which of these secrets a receiver can verify what is sent then."""
    valid = channels.signing_secrets_of(Channel.objects.get(pk=channel_id), now=now)
    timestamp = int(timezone.now().timestamp())  # a receiver compares it with its own clock
    headers = signatures.headers_of(
        b"{}", message_id="evt-1", timestamp=timestamp, signing_secrets=valid
    )
    results = []
    for secret in secrets:
        try:
            Webhook(secret).verify(b"{}", headers)
            results.append(True)
        except WebhookVerificationError:
            results.append(False)
    assert headers["webhook-signature"].count("v1,") == sum(results)
    return results


def test_a_token_is_replaced_without_a_refused_call(
    api: Callable[..., Api], use: Callable[[Keys], None]
) -> None:
    """The old one works until its overlap ends, whatever becomes of the secret key."""
    use(BEFORE)
    manager = api("operator", manages_tokens=True)
    old = manager("POST", "/tokens", {"kind": "reader", "name": "ci"}).body
    assert Api(old["secret"])("GET", "/me").status_code == 200
    new = manager("POST", f"/tokens/{old['id']}/rotate", {"overlap_hours": 24}).body
    use(AFTER)
    for secret in (old["secret"], new["secret"]):
        assert Api(secret)("GET", "/me").status_code == 200
    Token.objects.filter(pk=old["id"]).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert Api(old["secret"])("GET", "/me").body["code"] == "token_expired"
    assert Api(new["secret"])("GET", "/me").status_code == 200
