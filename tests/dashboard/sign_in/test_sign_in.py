"""Signing in and out."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from redis.exceptions import ConnectionError as RedisAway


def sign_in(client: Client, password: str = "tenfour-tenfour-tenfour", **more: str) -> Any:
    return client.post("/sign-in/", {"username": "mara", "password": password, **more})


def text(response: HttpResponse) -> str:
    return " ".join(response.content.decode().split())


def test_the_right_password_leads_to_the_page_asked_for(client: Client, mara: User) -> None:
    assert sign_in(client, next="/instructions/?q=a")["Location"] == "/instructions/?q=a"
    assert client.get("/instructions/").status_code == 200
    assert client.get("/sign-in/")["Location"] == "/"


@pytest.mark.parametrize("next", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_redirect_stays_on_this_site(client: Client, mara: User, next: str) -> None:
    assert sign_in(client, next=next)["Location"] == "/"


def test_wrong_password_keeps_the_username(client: Client, mara: User) -> None:
    response = sign_in(client, "wrong")
    assert response.status_code == 422
    assert "Incorrect username or password." in text(response)
    assert 'value="mara"' in text(response)
    assert client.get("/instructions/").status_code == 302


@pytest.mark.parametrize("flags", [{"is_staff": False}, {"is_active": False}])
def test_users_without_access_get_the_same_error(
    client: Client, mara: User, flags: dict[str, bool]
) -> None:
    User.objects.update(**flags)
    assert "Incorrect username or password" in text(sign_in(client))


def test_empty_fields_are_refused(client: Client, mara: User) -> None:
    assert "Enter your username and password." in text(sign_in(client, ""))


def test_eleventh_attempt_in_a_minute_is_refused(client: Client, mara: User) -> None:
    User.objects.create_user("jonas", password="tenfour-tenfour-tenfour", is_staff=True)
    for _ in range(10):
        assert sign_in(client, "wrong").status_code == 422
    response = sign_in(client)
    assert (response.status_code, response["Retry-After"]) == (429, "60")
    assert "Too many sign-in attempts. Wait a minute" in " ".join(text(response).split())
    assert sign_in(client, username="jonas").status_code == 302
    assert sign_in(Client(REMOTE_ADDR="192.0.2.7")).status_code == 302


@pytest.mark.parametrize("username", [" mara", "MARA", "ｍａｒａ", "mara\u00a0"])
def test_another_spelling_of_a_username_counts_as_the_same(
    client: Client, mara: User, username: str
) -> None:
    for _ in range(10):
        assert sign_in(client, "wrong", username=username).status_code == 422
    assert sign_in(client).status_code == 429


def test_the_attempts_of_an_address_are_limited(client: Client, mara: User) -> None:
    for number in range(30):
        assert sign_in(client, "wrong", username=f"mara{number}").status_code == 422
    assert sign_in(client).status_code == 429
    assert sign_in(Client(REMOTE_ADDR="192.0.2.7")).status_code == 302


def guess_from_many(count: int = 50) -> None:
    """Guess mara's password from as many networks as it needs (SEC-19)."""
    for number in range(count):
        address = f"2001:db8:0:{number:x}::1" if number % 2 else f"198.51.100.{number}"
        assert sign_in(Client(REMOTE_ADDR=address), "wrong").status_code == 422


def test_one_name_is_not_guessed_from_many_addresses(mara: User) -> None:
    """Strangers may guess 50 times in an hour; other names are free."""
    User.objects.create_user("jonas", password="tenfour-tenfour-tenfour", is_staff=True)
    guess_from_many()
    refused = sign_in(Client(REMOTE_ADDR="203.0.113.9"))
    assert (refused.status_code, refused["Retry-After"]) == (429, "3600")
    assert "Sign in with a browser that you have used here before" in text(refused)
    assert sign_in(Client(REMOTE_ADDR="203.0.113.9"), username="jonas").status_code == 302


def test_strangers_lock_no_person_out(mara: User) -> None:
    """A browser or a network from which a person has signed in is never limited by strangers."""
    browser = Client(REMOTE_ADDR="203.0.113.9")
    assert sign_in(browser).status_code == 302
    at_home = Client(REMOTE_ADDR="2001:db8:7:7::1")
    assert sign_in(at_home).status_code == 302
    browser.post("/sign-out/")
    guess_from_many(48)
    assert sign_in(Client(REMOTE_ADDR="203.0.113.10")).status_code == 429
    elsewhere = Client(REMOTE_ADDR="203.0.113.77")
    elsewhere.cookies = browser.cookies
    assert sign_in(elsewhere).status_code == 302, "the browser is known"
    assert sign_in(Client(REMOTE_ADDR="203.0.113.9")).status_code == 302, "the address is known"
    assert sign_in(Client(REMOTE_ADDR="2001:db8:7:7:ffff::2")).status_code == 302, "its network is"
    assert sign_in(Client(REMOTE_ADDR="2001:db8:7:8::1")).status_code == 429


def test_only_a_right_password_makes_a_browser_known(mara: User) -> None:
    """The mark is signed, names no one, and is good for its own person."""
    jonas = User.objects.create_user("jonas", password="tenfour-tenfour-tenfour", is_staff=True)
    browser = Client(REMOTE_ADDR="203.0.113.9")
    sign_in(browser, "wrong")
    assert "tenfour_known" not in browser.cookies
    sign_in(browser, username="jonas")
    mark = browser.cookies["tenfour_known"]
    assert (mark["httponly"], mark["samesite"], mark["path"]) == (True, "Lax", "/sign-in/")
    assert jonas.username not in mark.value
    browser.post("/sign-out/")
    guess_from_many(49)
    assert sign_in(browser).status_code == 429
    browser.cookies["tenfour_known"] = f"{mark.value}x"
    assert sign_in(browser).status_code == 429


def test_the_addresses_of_an_ipv6_network_are_one(mara: User) -> None:
    for number in range(10):
        guess = sign_in(Client(REMOTE_ADDR=f"2001:db8::{number:x}"), "wrong")
        assert guess.status_code == 422
    assert sign_in(Client(REMOTE_ADDR="2001:db8::ffff")).status_code == 429
    assert sign_in(Client(REMOTE_ADDR="2001:db8:0:1::1")).status_code == 302


def test_right_password_resets_the_count(client: Client, mara: User) -> None:
    for _ in range(9):
        sign_in(client, "wrong")
    assert sign_in(client).status_code == 302
    client.post("/sign-out/")
    assert sign_in(client, "wrong").status_code == 422


def test_without_the_cache_signing_in_goes_on(
    client: Client, mara: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise RedisAway("no Redis here")

    for name in ("add", "incr", "delete"):
        monkeypatch.setattr(cache, name, away)
    for _ in range(11):
        assert sign_in(client, "wrong").status_code == 422
    assert sign_in(client).status_code == 302


def test_expiry_between_two_calls_blocks_no_sign_in(
    client: Client, mara: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "add", lambda *_, **__: cache.delete("nothing"))
    assert sign_in(client).status_code == 302


def test_signing_out_is_a_post_and_ends_the_session(browser: Client) -> None:
    assert browser.get("/sign-out/").status_code == 405
    response = browser.post("/sign-out/", follow=True)
    assert "You are signed out." in text(response)
    assert browser.get("/instructions/").status_code == 302


def test_a_form_of_another_site_changes_nothing(mara: User) -> None:
    client = Client(enforce_csrf_checks=True)
    response = sign_in(client)
    assert response.status_code == 403
    assert "This form has expired" in text(response)
