"""Permission requests in a browser: decided by keys, on a phone, alone and in groups."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from ledger.models import Agent
from retries.models import Operation, PermissionRequest, PermissionRule
from retries.permissions import requests
from retries.permissions.calls import ToolCall
from retries.states import PermissionState
from tests.browser.conftest import (
    THREE_WIDTHS,
    Visitor,
    assert_whole,
    axe_findings,
    overflow,
    set_width,
    shoot,
    wait_until,
)
from tests.browser.touch_targets import find_small_targets
from tests.factories import make_agent
from tests.retries.operations.worlds import run
from tests.retries.permissions.asking import FOLDER, ask, escalation_of, make_rule

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150
EDIT = ToolCall(
    "Edit",
    {
        "file_path": f"{FOLDER}/checkout/{'w' * 90}.py",
        "old_string": "def total(lines):\n    return round(sum(lines), 2)\n",
        "new_string": f"def total(lines):\n    # {HOSTILE}\n    return exact(lines)\n",
    },
    FOLDER,
)


def address(request: PermissionRequest) -> str:
    return f"/escalations/{escalation_of(request).pk}/"


def is_in(request: PermissionRequest, state: PermissionState) -> Callable[[], bool]:
    return lambda: PermissionRequest.objects.get(pk=request.pk).state == state


def test_calls_are_decided_by_keys(
    visit: Callable[..., Visitor], coder: Agent, mara: User, now: datetime
) -> None:
    """Y allows, Z takes it back, N writes a denial, and Shift Y shows the rule before it counts."""
    first = ask(coder, "npm test", now=now - 3 * SECOND)
    second = ask(coder, "npm run lint", now=now - 2 * SECOND)
    third = ask(coder, "npm run build", now=now - SECOND)
    visitor = visit()
    page = visitor.sign_in(address(first))
    expect(page.locator("#escalation-title")).to_have_text(re.compile(r"wants to run\s+npm test"))
    # the time left runs in the browser
    shown = page.locator("#ends [data-countdown]").inner_text()
    expect(page.locator("#ends [data-countdown]")).not_to_have_text(shown, timeout=15_000)
    shoot(page, "permission-1440")
    page.keyboard.press("y")
    page.wait_for_url(re.compile(f"answered={escalation_of(first).pk}"))
    wait_until(page, is_in(first, PermissionState.ALLOWED))
    page.keyboard.press("z")
    page.wait_for_url(re.compile(f"/escalations/{escalation_of(first).pk}/"))
    page.wait_for_load_state()
    wait_until(page, is_in(first, PermissionState.WAITING))
    page.goto(visitor.url + address(second))
    page.keyboard.press("n")
    expect(page.locator("#fix")).to_be_focused()
    page.keyboard.type("Use uv.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(f"answered={escalation_of(second).pk}"))
    wait_until(page, is_in(second, PermissionState.DENIED))
    assert escalation_of(second).fix == "Use uv."
    page.goto(visitor.url + address(third))
    page.keyboard.press("Y")
    page.wait_for_url("**/settings/permissions/new/**")
    expect(page.locator("#rule-matcher")).to_have_value("npm run build")
    expect(page.locator("#trial")).to_contain_text("it would have allowed 1")
    shoot(page, "permission-remember-1440")
    page.click("button[name=save]")
    page.wait_for_url(re.compile(str(escalation_of(third).pk)))
    expect(page.locator("#toasts")).to_contain_text(
        "Allowed, and in force: Allow Bash npm run build"
    )
    assert PermissionRule.objects.get().created_by_name == "mara"
    assert visitor.complaints == []


def test_one_that_ends_elsewhere_says_so_without_a_reload(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    found = ask(coder, "npm test", now=now)
    visitor = visit()
    page = visitor.sign_in(address(found))
    expect(page.locator("#ends")).to_contain_text("the terminal asks instead")
    requests.end(
        found.pk,
        PermissionState.ANSWERED_THERE,
        among=PermissionRequest.objects.all(),
        stamp=requests.Stamp(requests.rules.CLOCK, now),
    )
    expect(page.locator("#ends")).to_contain_text("Answered at the terminal", timeout=20_000)
    expect(page.locator("button[value=allow]")).to_have_count(0)
    assert visitor.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_decides_with_a_thumb(
    visit: Callable[..., Visitor], coder: Agent, now: datetime, scheme: str
) -> None:
    found = ask(coder, EDIT, now=now, said=HOSTILE)
    visitor = visit(width=390, height=844, has_touch=True, is_mobile=True, color_scheme=scheme)
    page = visitor.sign_in(address(found))
    bar = page.locator("#thumb")
    expect(bar).to_be_in_viewport()
    for button in bar.locator(".btn").all():
        box = button.bounding_box()
        assert box and box["height"] >= 52
    assert overflow(page) == 0
    assert find_small_targets(page) == []
    assert axe_findings(page) == []
    shoot(page, f"permission-390-{scheme}")
    bar.get_by_text("Allow once").click()
    expect(page.locator("#thumb")).to_have_count(0)
    wait_until(page, is_in(found, PermissionState.ALLOWED))
    assert page.title() != "owned"
    assert visitor.complaints == []


def test_equal_calls_are_decided_at_once(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """Y on a group, and N for the selected ones: each opens its question with the answer chosen."""
    long = timedelta(hours=20)
    equal = [
        ask(coder, "npm test", now=now, wait=long, session=f"s-{number}") for number in range(3)
    ]
    other = ask(make_agent("tester"), "npm run lint", now=now)
    visitor = visit()
    page = visitor.sign_in("/escalations/")
    page.locator(".egroup:has-text('npm test') summary").focus()
    page.keyboard.press("y")
    page.wait_for_url("**/operations/new/escalation.answer/**")
    expect(page.locator("input[name=action][value=allow]")).to_be_checked()
    expect(page.locator("blockquote.quote")).to_have_text("npm test")
    page.click("button:has-text('Answer 3')")
    wait_until(page, Operation.objects.exists)
    run(Operation.objects.get(), now=now + timedelta(hours=2))
    for each in equal:
        wait_until(page, is_in(each, PermissionState.ALLOWED))
    page.goto(f"{visitor.url}{address(other)}")
    page.locator(f"#esc-{escalation_of(other).pk} [data-pick]").check()
    page.keyboard.press("n")
    page.wait_for_url("**/operations/new/escalation.answer/**")
    expect(page.locator("input[name=action][value=deny]")).to_be_checked()
    assert visitor.complaints == []


def test_two_hundred_calls_fit_every_width(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    ask(coder, EDIT, now=now - MINUTE, said=HOSTILE)
    hostile = ask(coder, f"echo '{HOSTILE}'; rm -rf /var/{'x' * 80}", now=now - SECOND)
    for number in range(200):
        ask(coder, f"npm test {number % 150}", now=now, session=f"s-{number}")
    visitor = visit()
    page = visitor.sign_in(address(hostile))
    for width in (320, 390, 768, 1024, 1440):
        set_width(page, width)
        assert overflow(page) == 0, width
    page.goto(visitor.url + "/escalations/")
    for width in (320, 390, 768, 1024, 1440):
        set_width(page, width)
        assert overflow(page) == 0, width
    assert page.title() != "owned"
    assert visitor.complaints == []


def test_the_pages_of_rules_are_whole(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    rule = make_rule(coder, "npm test", now=now)
    make_rule(coder, f"echo '{HOSTILE}'", allows=False, message=HOSTILE, now=now)
    ask(coder, "npm test", now=now)
    visitor = visit().signed_in()
    for path in ("", f"{rule.pk}/", "new/?tool=Bash&matcher=npm+test"):
        assert_whole(visitor, f"/settings/permissions/{path}", widths=THREE_WIDTHS)
