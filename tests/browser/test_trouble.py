"""The pages that say what went wrong: each is whole, and nothing was changed."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from dashboard.sign_in.throttle import count_stranger
from ledger.access import auth_failures
from ledger.authorization.roles import Role
from ledger.models import Agent, Membership, SignIn
from tests import services
from tests.browser.conftest import PASSWORD, Visitor, assert_whole, assert_whole_as_it_is, shoot

# more fields than the server reads
POST = """([path, count]) => {
    const form = document.createElement("form");
    form.method = "post";
    form.action = path;
    for (let number = 0; number < count; number += 1) {
        const field = document.createElement("input");
        field.name = `field-${number}`;
        form.append(field);
    }
    document.body.append(form);
    form.submit();
}"""


def post(page: Page, path: str, *, fields: int = 1) -> None:
    with page.expect_navigation():
        page.evaluate(POST, [path, fields])


def test_every_page_of_trouble_is_whole(visit: Callable[..., Visitor], coder: Agent) -> None:
    viewer = User.objects.create_user("jonas")
    Membership.objects.create(user=viewer, project=coder.project, role=Role.VIEWER)
    visitor = visit().signed_in("jonas")
    for path, status, said in (
        ("/instructions/%3Cscript%3E/", 404, "There is no page at"),
        (f"/tasks/{coder.pk}/", 404, f"There is no task {coder.pk}"),
        ("/settings/profile/save/", 405, "This address only accepts a form from another page."),
        ("/instructions/new/", 403, "Your role in this project can only read; an admin"),
    ):
        page = assert_whole(visitor, path, part="html", expected=f"status of {status}")
        expect(page.get_by_role("main")).to_contain_text(said)
        expect(page.get_by_role("link", name="Go to overview")).to_be_visible()
        visitor.complaints.clear()
    for count, said in ((2_000, "Tenfour can’t read this request"), (1, "This form has expired")):
        page.goto(f"{visitor.url}/settings/")
        post(page, "/settings/profile/save/", fields=count)
        expect(page.get_by_role("main")).to_contain_text(said)
        assert_whole_as_it_is(page, part="html")


def test_too_many_attempts_to_sign_in(
    visit: Callable[..., Visitor], mara: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth_failures, "PER_MINUTE", 1)
    page = visit().open("/sign-in/")
    for password in ("wrong", PASSWORD):
        page.fill("#username", "mara")
        page.fill("#password", password)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("Too many sign-in attempts. Wait a minute")
    expect(page.locator("#username")).to_have_value("")
    assert_whole_as_it_is(page)
    assert not SignIn.objects.exists()


def test_too_many_guesses_of_a_name(visit: Callable[..., Visitor], mara: User) -> None:
    for _ in range(50):
        count_stranger("mara", lambda: False)
    page = visit().open("/sign-in/")
    page.fill("#username", "mara")
    page.fill("#password", PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Sign in with a browser that you have used here before")
    shoot(page, "too_many_guesses")
    assert_whole_as_it_is(page)
    assert not SignIn.objects.exists()


@pytest.mark.skipif(services.running is None, reason="needs servers that it may stop")
def test_a_session_cannot_end_without_redis(visit: Callable[..., Visitor], coder: Agent) -> None:
    visitor = visit()
    page = visitor.open("/sign-in/?next=/settings/profile/")
    page.fill("#username", "mara")
    page.fill("#password", PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/settings/profile/")
    services.stop_redis()
    try:
        page.click("button[aria-label='Sign out']")
        expect(page.get_by_role("heading")).to_have_text("Redis can’t be reached")
        assert_whole_as_it_is(page)
    finally:
        services.start_redis()
    page.goto(f"{visitor.url}/settings/profile/")
    expect(page.get_by_role("heading", name="Profile", exact=True)).to_be_visible()
