"""The page that connects an agent, in a browser: whole in every state, by keys, without scripts."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from ledger.access.auth_failures import KEY
from ledger.database import optional_cache
from ledger.models import Token
from tests.browser.conftest import OWN, Visitor, assert_whole, assert_whole_as_it_is, wait_until
from tests.factories import make_project

PATH = "/agents/connect/"


@pytest.fixture(autouse=True)
def _project(transactional_db: None) -> None:
    """An installation as its first start leaves it."""
    make_project()
    optional_cache.delete(KEY)


def test_the_form_and_every_way_are_whole(visit: Callable[..., Visitor]) -> None:
    visitor = visit().signed_in()
    assert_whole(visitor, PATH)
    for way in ("claude", "codex", "cli", "curl", "python", "mcp", "prompt"):
        page = assert_whole(visitor, f"{PATH}?way={way}", part=f".way--{way}")
        expect(page.locator(f".way--{way}")).to_be_visible()
        expect(page.locator(".way:visible")).to_have_count(1)


def test_the_light_turns_green_while_the_token_and_the_way_stay(
    visit: Callable[..., Visitor], live_server: LiveServer, settings: Settings
) -> None:
    """By keys alone: name, way, copy; then the first call and the acknowledgment arrive."""
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visitor.sign_in(PATH)
    page.keyboard.press("c")
    page.keyboard.press("Control+a")
    page.keyboard.type("painter")
    page.keyboard.press("Enter")
    expect(page.locator("#light")).to_contain_text("Waiting for the first call")
    secret = page.locator("#token").inner_text()
    page.keyboard.press("4")
    expect(page.locator(".way--curl")).to_be_visible()
    page.keyboard.press("y")
    expect(page.locator("#toasts")).to_contain_text("The token is in your clipboard.")
    wait_until(page, lambda: secret in page.evaluate("navigator.clipboard.readText()"))
    expect(page).to_have_url(re.compile("way=curl"))
    assert secret not in page.url
    assert_whole_as_it_is(page)
    headers = {"Authorization": f"Bearer {secret}", "User-Agent": "curl/8.9"}
    pulled = Client().post("/v1/instructions/pull", {}, "application/json", headers=headers)
    expect(page.locator("#light")).to_contain_text("POST /v1/instructions/pull from curl 8.9")
    id = pulled.json()["data"][0]["id"]
    Client().post(f"/v1/instructions/{id}/ack", {}, "application/json", headers=headers)
    expect(page.locator("#light")).to_contain_text("painter is connected")
    expect(page.locator("#proof .is-done")).to_have_count(5)
    expect(page.locator("#token")).to_have_text(secret)
    expect(page.locator(".way--curl")).to_be_visible()
    assert_whole_as_it_is(page)
    page.reload()
    expect(page.locator("#prefix")).to_contain_text("••••")
    assert secret not in page.content()
    assert_whole_as_it_is(page)
    assert visitor.complaints == []


def test_every_state_of_the_light_is_whole(visit: Callable[..., Visitor], now: datetime) -> None:
    visitor = visit().signed_in()
    for state in ("late", "refused", "revoked", "clock", "hostile"):
        optional_cache.delete(KEY)
        page = visitor.open(PATH)
        show_light(page, state, now)
        assert_whole_as_it_is(page, part=OWN if state == "hostile" else "#light")


def show_light(page: Page, state: str, now: datetime) -> None:
    page.fill("#agent", "w" * 64 if state == "hostile" else f"coder-{state}")
    page.click("#create")
    expect(page.locator("#light")).to_contain_text("Waiting")
    call = {"what": "GET /" + "w" * 110, "program": "<script>" * 15, "address": "10.0.4.17"}
    match state:
        case "late":
            Token.objects.update(created_at=now - timedelta(minutes=3))
        case "refused":
            wrong = {"Authorization": f"Bearer tenfour_agt_9Qz1{'x' * 26}_abcdef"}
            Client().get("/v1/me", headers=wrong)
        case "revoked":
            Token.objects.update(revoked_at=now)
        case _:
            call |= {"clock_ahead_s": 400}
            Token.objects.update(last_used_at=now, first_used_at=now, first_call=call)
    said = {
        "late": "Nothing yet after 3 m",
        "refused": "A call with a wrong token",
        "revoked": "no longer valid",
        "clock": "Its clock is 6 m 40 s ahead",
        "hostile": "Connected",
    }
    expect(page.locator("#light")).to_contain_text(said[state])


def test_a_server_that_is_away_is_said_and_forgotten(visit: Callable[..., Visitor]) -> None:
    page = visit().sign_in(PATH)
    page.click("#create")
    expect(page.locator("#light")).to_contain_text("Waiting")
    page.context.set_offline(True)
    expect(page.locator("#light-lost")).to_be_visible()
    assert_whole_as_it_is(page, widths=(390,), part="#light-lost")
    page.context.set_offline(False)
    expect(page.locator("#light-lost")).to_be_hidden()


def test_it_works_without_scripts(visit: Callable[..., Visitor]) -> None:
    page = visit(java_script_enabled=False).sign_in(PATH)
    page.check("#way-python", force=True)
    expect(page.locator(".way--python")).to_be_visible()
    page.click("#create")
    expect(page.locator("#token")).to_contain_text("tenfour_agt_")
    page.click("text=Look again")
    expect(page.locator("#prefix")).to_contain_text("••••")
    expect(page.locator("#light")).to_contain_text("Waiting for the first call")
