"""What a person typed into a refused form stays, and forms read times in the zone that they show."""

import re
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils.html import escape

from ledger.models import Agent, Invitation, Plan, Preference, Token
from retries.assignment.people import NOTE_LENGTH
from retries.insight.experiments import REASON_LENGTH
from retries.models import Escalation, QuietHours
from tests.access_world import World, make_world
from tests.dashboard.notifications.deliveries import make_channel
from tests.dashboard.seen import html, said

PEOPLE, NOTIFICATIONS = "/settings/people", "/settings/notifications"


@pytest.fixture
def world(agent: Agent, now: datetime) -> World:
    return make_world(agent, now)


@pytest.fixture
def _in_tokyo(mara: User) -> None:
    Preference.objects.create(user=mara, time_zone="Asia/Tokyo")


def chosen(page: str, name: str) -> str:
    """Return the value of the option that a select of this name has chosen."""
    select = re.search(rf'<select[^>]*name="{name}".*?</select>', page)
    assert select
    found = re.search(r'value="([^"]*)" selected', select[0])
    assert found, select[0]
    return found[1]


TOKEN = {
    "kind": "operator",
    "agent": "",
    "name": "a “b” <c>",
    "days": "30",
    "manages_tokens": "yes",
}


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"days": "99999"}, "Give a whole number of days, from 1 to 3,650."),
        ({"days": "0"}, "Give a whole number of days"),
        ({"days": "²"}, "Give a whole number of days"),
        ({"name": "x" * 65}, "A name has at most 64 characters."),
        ({"kind": "agent", "agent": "x" * 65}, "64"),
        ({"kind": "agent", "agent": "new", "account": "x" * 65}, "64 printable characters"),
        ({"kind": "emperor"}, "Choose one of the kinds of tokens."),
    ],
)
def test_a_refused_token_keeps_its_form(
    browser: Client, agent: Agent, wrong: dict[str, str], problem: str
) -> None:
    form = TOKEN | wrong
    page = html(browser.post("/settings/tokens/new/", form), 422)
    assert problem in page
    for name in ("agent", "name", "days"):
        assert re.search(rf'name="{name}"[^>]*value="{re.escape(form[name])}"', page), name
    if form["kind"] != "emperor":
        assert chosen(page, "kind") == form["kind"]
    assert re.search(r'name="manages_tokens" value="yes" checked', page)
    assert not Token.objects.exists() and Agent.objects.count() == 1


def test_a_token_lives_as_long_as_the_form_says(browser: Client, agent: Agent) -> None:
    for days, expected in (("", 90), ("1", 1), ("3650", 3650)):
        made = browser.post("/settings/tokens/new/", {"kind": "reader", "days": days})
        assert made.status_code == 200, days
        token = Token.objects.latest("pk")
        assert token.expires_at
        assert token.expires_at - token.created_at == timedelta(days=expected)


def test_a_refused_invitation_keeps_its_role_and_its_time(browser: Client, agent: Agent) -> None:
    """Sent again it would make an operator of a viewer, and a week of a day."""
    form = {"email": "no address", "role": "viewer", "days": "1"}
    page = html(browser.post(f"{PEOPLE}/invitations/", form), 422)
    assert (chosen(page, "role"), chosen(page, "days")) == ("viewer", "1")
    assert 'value="no address"' in page
    for wrong in ({"role": "emperor"}, {"days": "400"}):
        refused = browser.post(f"{PEOPLE}/invitations/", form | {"email": ""} | wrong)
        assert "Choose a role and how long the link works." in html(refused, 422)
    assert not Invitation.objects.exists()


@pytest.mark.parametrize(
    ("starts", "ends", "zone"),
    [
        ("22:00+05:00", "07:00", "UTC"),
        ("22:00", "07:00Z", "UTC"),
        ("soon", "07:00", "UTC"),
        ("22:00", "", "UTC"),
        ("", "07:00", "UTC"),
        ("22:00", "07:00", "Asia/Atlantis"),
    ],
)
def test_refused_quiet_hours_stay_in_the_form(
    browser: Client, agent: Agent, now: datetime, starts: str, ends: str, zone: str
) -> None:
    """A time with a zone could not be compared with the other one."""
    form = {"starts": starts, "ends": ends, "timezone": zone}
    page = html(browser.post(f"{NOTIFICATIONS}/quiet-hours/", form), 422)
    for name, value in form.items():
        assert re.search(rf'name="{name}" value="{re.escape(value)}"', page), name
    channel = make_channel("ops", project=agent.project, kind="person", now=now)
    rule = {"conditions": "plan", "channel": str(channel.pk), "timezone": zone}
    rule |= {"quiet_from": starts, "quiet_until": ends}
    assert browser.post(f"{NOTIFICATIONS}/rules/", rule).status_code == 422
    assert browser.post(f"{NOTIFICATIONS}/rules/check/", rule).status_code == 200
    assert not QuietHours.objects.exists()


def test_quiet_hours_that_are_stored_stand_in_the_form(browser: Client, agent: Agent) -> None:
    form = {"starts": "22:00", "ends": "07:00", "timezone": "Asia/Tokyo"}
    assert browser.post(f"{NOTIFICATIONS}/quiet-hours/", form).status_code == 302
    row = QuietHours.objects.get()
    assert (row.starts, row.ends, row.timezone) == (time(22), time(7), "Asia/Tokyo")
    page = html(browser.get(f"{NOTIFICATIONS}/"))
    assert all(f'name="{name}" value="{value}"' in page for name, value in form.items())


def list_refused(ids: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """Return forms with a text that is refused, in the field with `~`."""
    running = f"/insight/experiments/{ids['experiment_id']}/end/"
    return [
        (f"/escalations/{ids['escalation_id']}/remark/", {"text": "Ask ~" + "x" * NOTE_LENGTH}),
        (f"/escalations/{ids['escalation_id']}/remark/", {"text": "Ask ~ \x1b[0m"}),
        (
            "/insight/experiments/",
            {"in": "default", "element": "standing", "share": "20", "reason": "Ask ~"},
        ),
        (running, {"reason": "Ask ~" + "x" * REASON_LENGTH}),
        ("/settings/policies/obey_waits/", {"scope": "off", "version": "99", "reason": "Ask ~"}),
        ("/views/tasks/save/", {"name": "Ask ~" + "x" * 40, "q": "state:retry"}),
    ]


def test_a_text_that_is_refused_stands_in_the_message(browser: Client, world: World) -> None:
    """Its form is not shown again, so that it could not be copied from there."""
    for path, form in list_refused(world.ids):
        assert "You typed: “Ask ~" in said(browser, path, form), path


@pytest.mark.usefixtures("_in_tokyo")
def test_a_snooze_says_in_which_zone_it_ends(browser: Client, world: World) -> None:
    path = f"/escalations/{world.ids['escalation_id']}/snooze/"
    told = said(browser, path, {"until": "tomorrow"})
    assert re.search(r"Snoozed until \w+ \d+, 09:00 JST\.", told), told
    until = Escalation.objects.get(pk=world.ids["escalation_id"]).snoozed_until
    assert until and until.astimezone(UTC).hour == 0


@pytest.mark.usefixtures("_in_tokyo")
def test_fields_that_are_read_in_utc_show_utc(browser: Client, world: World) -> None:
    plan = Plan.objects.get(pk=world.ids["plan_id"])
    browser.post(f"/plans/{plan.pk}/abort/", {"confirmed": "yes"})
    page = html(browser.get(f"/plans/{plan.pk}/", {"ask": "restart"}))
    shown = re.search(r'name="carry_over" value="([^"]+)"', page)
    assert shown and shown[1] == f"{plan.created_at.astimezone(UTC):%Y-%m-%dT%H:%M}", shown
    found = html(browser.get("/activity/", {"q": "since:2026-11-20T10:00 until:2026-11-20T11:00"}))
    for name, at in (("from", "2026-11-20T10:00"), ("to", "2026-11-20T11:00")):
        assert f'name="{name}" value="{at}"' in found, name


def test_escaped_texts_stay_escaped(browser: Client, world: World) -> None:
    hostile = "<script>alert(1)</script>" + "x" * 40
    form = {"name": hostile, "q": "state:retry", "next": "/tasks/"}
    page = browser.post("/views/tasks/save/", form, follow=True).content.decode()
    assert escape(hostile) in page and hostile not in page
