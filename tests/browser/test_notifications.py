"""Notifications and deliveries in a browser: whole in every dress, by keys, without scripts."""

from collections.abc import Callable
from datetime import datetime, time, timedelta

from django.contrib.auth.models import User
from playwright.sync_api import expect

from retries.models import Delivery, NotificationRule
from tests.browser.conftest import Visitor, assert_whole, poll
from tests.dashboard.notifications.deliveries import (
    make_channel,
    make_delivery,
    make_notification_rule,
)
from tests.dashboard.notifications.test_notifications import HOSTILE, SLACK
from tests.factories import make_project

PATH = "/settings/notifications/"
Visit = Callable[..., Visitor]


def make_world(now: datetime) -> tuple[NotificationRule, Delivery]:
    """Make channels in every state, rules, and deliveries with hostile texts."""
    project = make_project()
    slack = make_channel("#oncall", project=project, now=now, succeeded_at=now, **SLACK)
    phone = make_channel(HOSTILE + "w" * 30, project=project, now=now, **SLACK)
    mirror = make_channel(
        "Ledger mirror",
        project=project,
        now=now,
        state="failing",
        failing_since=now,
        failures=14,
        last_error="503 Service Unavailable",
        shown_address=f"https://ci.example.com/{'a' * 150}",
    )
    old = make_channel("Old", project=project, now=now, state="disabled", disabled_at=now)
    rule = make_notification_rule(
        slack,
        now=now,
        severity="high",
        repeat_s=1800,
        cap_per_hour=10,
        quiet_from=time(22),
        quiet_until=time(7),
        second_channel=phone,
        second_after_s=3600,
    )
    make_notification_rule(slack, now=now, conditions=["breaker", "plan"], enabled=False)
    make_delivery(slack, now=now, rule=rule, role="test", kind="test")
    make_delivery(old, "gave_up", codes=(410,), now=now)
    delivery = make_delivery(
        mirror,
        "retrying",
        codes=(503, None, 503),
        now=now,
        response=f"{HOSTILE}{'x' * 900}",
        title=f"{HOSTILE} {'w' * 150}",
    )
    return rule, delivery


def test_every_form_is_whole(visit: Visit, transactional_db: None, now: datetime) -> None:
    visitor = visit().signed_in()
    make_project()
    assert_whole(visitor, PATH, widths=[390])
    page = assert_whole(visitor, f"{PATH}?edit=new")
    says = page.locator("#rules p").bounding_box()
    assert says, "a rule needs a channel first"
    assert says["width"] > 250
    User.objects.create_superuser("w" * 150)
    rule, delivery = make_world(now)
    mirror = delivery.channel
    both, desk, phone = (1440, 390), (1440,), (390,)
    for path, widths in {
        f"{PATH}?edit={rule.pk}": both,
        f"{PATH}?channel=new": phone,
        f"{PATH}?channel={mirror.pk}": desk,
        f"{PATH}rules/{rule.pk}/preview/": both,
        f"/settings/deliveries/?open={delivery.pk}&range=yes&to={mirror.pk}": both,
    }.items():
        assert_whole(visitor, path, widths=widths)


def test_a_rule_is_edited_by_keys_and_polls_leave_it_alone(
    visit: Visit, transactional_db: None, now: datetime
) -> None:
    rule, _ = make_world(now)
    page = visit().sign_in(PATH)
    page.keyboard.press("n")
    expect(page.locator("#rule-form")).to_be_visible()
    page.get_by_label("At most, an hour").fill("3")
    expect(page.locator("#said")).to_contain_text("at most 3 an hour")
    page.goto(f"{page.url.partition('?')[0]}?edit={rule.pk}")
    page.get_by_label("At most, an hour").fill("7")
    expect(page.locator("#said")).to_contain_text("at most 7 an hour")
    make_channel("Another", project=rule.project, now=now + timedelta(seconds=1))
    poll(page)
    expect(page.locator("#channels")).to_contain_text("Another")
    expect(page.locator("[name=cap]")).to_have_value("7")
    page.get_by_label("At most, an hour").press("Control+Enter")
    expect(page.locator("#toasts")).to_contain_text("Rule saved.")
    rule.refresh_from_db()
    assert rule.cap_per_hour == 7
    page.get_by_role("switch", name="Rule 1 is on").click()
    expect(page.locator("#toasts")).to_contain_text("The rule is off.")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#toasts")).to_contain_text("The rule is on.")


def test_a_delivery_is_opened_and_sent_again_by_keys(
    visit: Visit, transactional_db: None, now: datetime
) -> None:
    _, delivery = make_world(now)
    Delivery.objects.exclude(pk=delivery.pk).delete()
    page = visit().sign_in("/settings/deliveries/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#opened")).to_contain_text("no answer within 15 s")
    page.keyboard.press("r")
    expect(page.locator("#toasts")).to_contain_text("1 delivery will be sent again.")
    delivery.refresh_from_db()
    assert delivery.state == "pending"


def test_all_of_it_works_without_scripts(
    visit: Visit, transactional_db: None, now: datetime
) -> None:
    rule, delivery = make_world(now)
    page = visit(java_script_enabled=False).sign_in(f"{PATH}?edit={rule.pk}")
    page.get_by_label("At most, an hour").fill("4")
    page.get_by_role("button", name="Show what it would send").click()
    expect(page.locator("#said")).to_contain_text("at most 4 an hour")
    page.get_by_role("button", name="Save rule").click()
    expect(page.locator("#rules")).to_contain_text("at most 4 an hour")
    page.goto(page.url.partition("/settings")[0] + "/settings/deliveries/?range=yes")
    form = page.get_by_role("form", name="Range to redeliver")
    form.get_by_label("Channel").select_option(label="Ledger mirror")
    page.get_by_label("Which deliveries").select_option("all")
    page.get_by_role("button", name="Count").click()
    expect(page.locator("#range")).to_contain_text("deliver")
    page.goto(page.url.partition("?")[0] + f"?open={delivery.pk}")
    page.get_by_role("button", name="Redeliver now").click()
    expect(page.locator("#toasts")).to_contain_text("1 delivery will be sent again.")
