"""The digest of a channel: set in its form, shown before it is sent, and sent as an example."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from ledger.models import Agent, Preference, Project
from retries.models import Channel, Delivery
from tests.dashboard.notifications.deliveries import make_channel
from tests.dashboard.seen import html, said, words
from tests.retries.notifications.receivers import (
    Receiver,
    escalate,
    make_person_channel,
    ntfy,
    receive,
)

pytestmark = pytest.mark.django_db
URL = "/settings/notifications/"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receive() as running:
        monkeypatch.setitem(settings.TENFOUR, "WEBHOOK_ALLOW", [running.allowed])
        yield running


def test_a_digest_is_set_in_the_form_of_its_channel(
    browser: Client, mara: User, project: Project
) -> None:
    Preference.objects.create(user=mara, time_zone="Asia/Tokyo")
    new = html(browser.get(URL, {"channel": "new"}))
    assert 'name="digest_timezone"' in new and 'value="Asia/Tokyo"' in new
    form = {"kind": "ntfy", "project": "default", "name": "phone", "server": "1.1.1.1"}
    form |= {"topic": "ops", "security": "https"}
    digest = {"digest": "daily", "digest_hour": "7", "digest_timezone": "Asia/Tokyo"}
    refused = html(browser.post(f"{URL}channels/", form | digest | {"digest_hour": "25"}), 422)
    assert "The hour is from 0 to 23." in refused and 'value="25"' in refused
    refused = html(browser.post(f"{URL}channels/", form | digest | {"digest_timezone": "x"}), 422)
    assert "Choose a time zone" in refused
    assert "Channel saved." in said(browser, f"{URL}channels/", form | digest)
    channel = Channel.objects.get()
    assert (channel.digest, channel.digest_hour) == ("daily", 7)
    assert channel.digest_due_at and channel.digest_due_at.hour == 22
    # a form of a former version has no such fields
    kept = form | {"channel": str(channel.pk), "version": str(channel.version)}
    assert "Channel saved." in said(browser, f"{URL}channels/", kept)
    assert Channel.objects.get().digest == "daily"


def test_a_digest_is_shown_and_sent_as_an_example(
    browser: Client, agent: Agent, now: datetime, receiver: Receiver
) -> None:
    channel = make_person_channel(ntfy(receiver), project=agent.project)
    quiet = words(browser.get(URL, {"digest": str(channel.pk)}))
    assert "not sent: nothing happened" in quiet and "What it cost - nothing" in quiet
    assert "off; this is the last day" not in quiet
    escalate(agent, "<script>alert(1)</script>")
    page = browser.get(URL, {"digest": str(channel.pk)})
    assert "1 open escalation, the oldest first" in words(page)
    assert "off; this is the last day" in words(page)
    assert b"<script>alert(1)" not in page.content
    sent = f"{URL}channels/{channel.pk}/digest/"
    assert "accepted the digest as an example" in said(browser, sent, {})
    (delivery,) = Delivery.objects.all()
    assert delivery.role == "test" and delivery.body["subject"].startswith("Example: [default] Day")
    assert "One test or example" in said(browser, sent, {})
    hook = make_channel(project=agent.project, now=now - timedelta(days=1))
    assert 'id="digest"' not in html(browser.get(URL, {"digest": str(hook.pk)}))
    assert "Only a channel for people" in said(browser, f"{URL}channels/{hook.pk}/digest/", {})
