"""Numbers and times that no page sends: they are refused, or count as none."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.form_values import EARLIEST, read_past_time
from ledger.authorization.roles import Role
from ledger.models import Agent, Invitation, Membership, Preference
from retries.models import Operation
from tests.access_world import World, make_world
from tests.dashboard.seen import said
from tests.source_tree import calls

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
NUMBERS = ("²", "٣", "9" * 30, "9" * 5000, "-1", "1e9", "\0", "")


def test_only_one_module_reads_the_digits_of_forms() -> None:
    """`int` fails for texts that `isdigit` accepts, and for very long ones."""
    asks = ("isdigit", "isdecimal", "isnumeric")
    found = {
        path
        for path, _, name in calls()
        if path.startswith("dashboard/") and name.split(".")[-1] in asks
    }
    may = {"form_values.py", "charts/dependencies.py", "frame/live_updates.py"}
    assert found == {f"dashboard/{name}" for name in may}


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-23T11:00:00+00:00", NOW - timedelta(hours=1)),
        ("1970-01-01T00:00:00Z", EARLIEST),
        *((text, None) for text in ("2026-11-23T12:00:01Z", "2026-11-23T11:00", "soon", "")),
        ("0001-01-01T00:00:00+23:59", None),  # PostgreSQL stores it in a year before the first
        ("9999-12-31T23:59:59-23:59", None),
    ],
)
def test_a_time_is_past_and_after_1970(text: str, at: datetime | None) -> None:
    assert read_past_time(text, now=NOW) == at


@pytest.fixture
def world(agent: Agent, now: datetime) -> World:
    return make_world(agent, now)


def list_requests(ids: dict[str, Any]) -> list[tuple[str, str, dict[str, str]]]:
    """Return requests with a number in the field `?`: method, path and form."""
    rule = {"event": "signal", "content": "x"}
    return [
        ("get", "/escalations/", {"page": "?"}),
        ("get", "/agents/", {"page": "?"}),
        ("get", "/patterns/", {"page": "?"}),
        ("get", f"/sessions/{ids['session_id']}/", {"make": "?", "at": "?", "before": "?"}),
        ("post", "/settings/tokens/new/", {"kind": "reader", "days": "?"}),
        ("post", "/instructions/standing/new/", rule | {"rows": "?", "expect_rows": "?"}),
        ("post", "/instructions/standing/new/", rule | {"max_retries": "?"}),
        (
            "post",
            "/settings/policies/ask_at_once/",
            {"scope": "off", "reason": "x", "version": "?"},
        ),
        ("post", "/insight/targets/", {"subject": f"agent:{ids['agent_id']}", "percent": "?"}),
        (
            "post",
            "/settings/notifications/rules/",
            {"rule": str(ids["notification_rule_id"]), "version": "?", "cap": "?"},
        ),
        (
            "post",
            "/settings/notifications/channels/",
            {"channel": str(ids["channel_id"]), "name": "x", "version": "?"},
        ),
    ]


@pytest.mark.parametrize("number", NUMBERS)
def test_no_number_is_an_error_of_the_server(browser: Client, world: World, number: str) -> None:
    for method, path, form in list_requests(world.ids):
        data = {name: number if value == "?" else value for name, value in form.items()}
        assert getattr(browser, method)(path, data).status_code < 500, path


def test_an_operation_has_no_time_that_its_pages_could_not_show(
    browser: Client, world: World
) -> None:
    odd = {"counted_at": "0001-01-01T00:00:00+23:59", "confirmed": "yes", "reason": "x"}
    form = odd | {"id": str(world.ids["blocked_id"]), "next": "/tasks/"}
    assert browser.post("/operations/new/task.skip/", form).status_code == 302
    made = Operation.objects.latest("pk")
    assert made.pk != world.ids["operation_id"] and made.counted_at.year > 2000
    assert browser.get(f"/operations/{made.pk}/").status_code == 200


def test_a_theme_or_time_zone_that_does_not_exist_changes_nothing(
    browser: Client, mara: User
) -> None:
    path = "/settings/profile/save/"
    assert "Saved" in said(browser, path, {"theme": "dark", "time_zone": "Asia/Tokyo"})
    for form in (
        {"theme": "dark", "time_zone": "Asia/Atlantis"},
        {"theme": "neon", "time_zone": "UTC"},
        {"theme": "light", "time_zone": "../../etc/passwd"},
        {"theme": "light", "time_zone": "\0"},
    ):
        assert "Nothing was changed" in said(browser, path, form), form
    refused = browser.post(path, {"theme": "neon"})
    assert refused.status_code == 422 and b"Nothing was changed" in refused.content
    row = Preference.objects.get()
    assert (row.theme, row.time_zone) == ("dark", "Asia/Tokyo")


def test_an_invitation_is_for_an_address_that_fits(browser: Client, agent: Agent) -> None:
    """A valid address may have 320 characters; the column has 254."""
    local = "a" * 60
    for address in (f"{local}@{'b.' * 120}example", "no address", "a\0b@example.com"):
        form = {"role": Role.VIEWER, "email": address}
        refused = browser.post("/settings/people/invitations/", form)
        assert "Enter an email address" in words_of(refused), address
    assert not Invitation.objects.exists() and not Membership.objects.exists()


def words_of(response: Any) -> str:
    assert response.status_code == 422
    text: str = response.content.decode()
    return text
