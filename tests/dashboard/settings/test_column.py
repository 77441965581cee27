"""The column beside the settings: one entry for each page, the current one, and true counts."""

import re
from datetime import datetime

from django.contrib.auth.models import User
from django.test import Client

from ledger.authorization.roles import Role
from ledger.models import Agent, Membership, Project
from retries.models import Delivery
from retries.models.notification_delivery import DeliveryState
from tests.dashboard.notifications.deliveries import make_channel, make_delivery
from tests.dashboard.seen import html
from tests.factories import make_token

PATHS = {
    "People": "/settings/people/",
    "Tokens": "/settings/tokens/",
    "Notifications": "/settings/notifications/",
    "Deliveries": "/settings/deliveries/",
    "On call": "/settings/on-call/",
    "Permission rules": "/settings/permissions/",
    "Policies": "/settings/policies/",
    "Budgets": "/settings/budgets/",
    "Operations": "/operations/",
    "Profile": "/settings/profile/",
    "Audit log": "/settings/audit/",
    "Deployment": "/settings/",
}


def column(client: Client, path: str) -> dict[str, str]:
    """Return the attributes of each link in the column with the words after its label."""
    found = re.search(
        r'<nav class="facets setnav" aria-label="Settings">.*?</nav>', html(client.get(path))
    )
    assert found, path
    links = re.findall(r'<a class="facet" href="([^"]*)"([^>]*)>(.*?)</a>', found[0])
    words = [" ".join(re.sub(r"<[^>]+>", " ", text).split()) for _, _, text in links]
    return {text: f"{href}{rest}" for text, (href, rest, _) in zip(words, links, strict=True)}


def test_each_page_is_the_current_one_of_the_column(browser: Client, project: Project) -> None:
    for label, path in PATHS.items():
        links = column(browser, path)
        assert [text.rstrip(" 0123456789") for text in links] == list(PATHS), path
        current = [
            text.rstrip(" 0123456789") for text, rest in links.items() if "aria-current" in rest
        ]
        assert current == [label] and f'{path} aria-current="page"' in links.values(), path


def test_counts_are_those_of_the_pages(
    browser: Client, agent: Agent, project: Project, now: datetime
) -> None:
    """People and tokens as their pages count them, and the deliveries that gave up."""
    for number in range(3):
        user = User.objects.create_user(f"person-{number}", is_active=number > 0)
        Membership.objects.create(user=user, project=project, role=Role.VIEWER, added_by="mara")
        make_token("agent", agent=agent)
    given_up = make_delivery(make_channel(project=project, now=now), now=now)
    Delivery.objects.filter(pk=given_up.pk).update(state=DeliveryState.GAVE_UP)
    links = column(browser, "/settings/profile/")
    assert {"People 3", "Tokens 3", "Deliveries 1 gave up"} <= links.keys()
    for path in ("/settings/people/", "/settings/tokens/"):
        assert '<span class="count">3</span>' in html(browser.get(path)), path


def test_a_viewer_gets_only_what_opens(project: Project) -> None:
    user = User.objects.create_user("vera")
    Membership.objects.create(user=user, project=project, role=Role.VIEWER, added_by="mara")
    client = Client()
    client.force_login(user)
    links = column(client, "/settings/profile/")
    assert "Tokens" not in links and len(links) == len(PATHS) - 1
    for rest in links.values():
        assert client.get(rest.split(" ")[0]).status_code == 200
