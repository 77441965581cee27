"""What people can do while Redis is away: everything but to end a session."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ledger.models import SignIn, SignInOutcome, SignInRecord
from tests import services

pytestmark = pytest.mark.skipif(services.running is None, reason="needs servers that it may stop")

PASSWORD = "tenfour-tenfour-tenfour"
NEW = "horse-battery-staple-9"


@pytest.fixture
def _redis_away(mara: User) -> Iterator[None]:
    services.stop_redis()
    try:
        yield
    finally:
        services.start_redis()


def sign_in(client: Client) -> int:
    return client.post("/sign-in/", {"username": "mara", "password": PASSWORD}).status_code


@pytest.mark.usefixtures("_redis_away")
@pytest.mark.parametrize("path", ["/", "/tasks/", "/agents/", "/search/?q=x", "/settings/profile/"])
def test_people_sign_in_and_read_pages(client: Client, path: str) -> None:
    assert client.get(path).status_code == 302
    assert sign_in(client) == 302
    assert client.get(path).status_code == 200
    assert client.get(path).status_code == 200
    theme = client.post("/settings/profile/save/", {"theme": "dark"})
    assert theme.status_code == 204


def test_a_session_that_redis_has_a_copy_of_is_ended_with_it_or_not_at_all(
    client: Client, mara: User
) -> None:
    client.raise_request_exception = False  # as in the web server, it becomes a response
    change = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    assert sign_in(client) == 302
    other = Client()
    assert sign_in(other) == 302
    services.stop_redis()
    try:
        for path, form in (
            ("/sign-out/", {}),
            ("/settings/people/browsers/end-others/", {}),
            ("/settings/profile/password/", change),
        ):
            refused = client.post(path, form)
            assert refused.status_code == 503, path
            assert "Nothing was changed" in refused.content.decode()
            assert int(refused["Retry-After"]) > 0
            assert client.get("/tasks/").status_code == 200
    finally:
        services.start_redis()
    assert User.objects.get().check_password(PASSWORD)
    assert SignIn.objects.count() == 2
    assert not SignInRecord.objects.filter(outcome=SignInOutcome.SIGNED_OUT).exists()
    for each in (client, other):
        assert each.get("/tasks/").status_code == 200
    assert client.post("/settings/people/browsers/end-others/").status_code == 302
    assert other.get("/tasks/").status_code == 302
    assert client.post("/sign-out/").status_code == 302
    assert client.get("/tasks/").status_code == 302 and not SignIn.objects.exists()
