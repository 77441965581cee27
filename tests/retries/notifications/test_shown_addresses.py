"""The address of a channel is shown without its path, which many services have for a secret."""

import io
import logging
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from retries.models import Channel
from retries.notifications.addresses.shortening import shorten_address
from tests.admin_pages import mara as mara
from tests.admin_pages import path
from tests.conftest import Api
from tests.factories import make_agent, make_project
from tests.retries.moves import make_task
from tests.retries.notifications.receivers import Receiver, make_webhook, run_clock

pytestmark = pytest.mark.django_db(transaction=True)
MIGRATION = import_module("retries.migrations.0019_squashed_0025_attempt_diff")
CASES = {
    "https://hooks.slack.com/services/T0/B0/XXXX": "https://hooks.slack.com/services/…",
    "https://discord.com/api/webhooks/1/abc": "https://discord.com/api/…",
    "https://h.example:8443/hook?token=x": "https://h.example:8443/hook/…",
    "https://h.example/?token=x": "https://h.example/…",
    "https://h.example?token=x": "https://h.example/…",
    "https://h.example/hook": "https://h.example/hook",
    "https://h.example/hook/": "https://h.example/hook",
    "https://h.example/": "https://h.example/",
    "https://h.example": "https://h.example",
    "https://hc-ping.com/0c8983c9-9d73-446f-adb5-0641fdacc9d4": "https://hc-ping.com/…",
    "mailto://127.0.0.1:25/oncall@example.com": "mailto://127.0.0.1:25/oncall@example.com",
    "json://h.example/services/T0/B0": "json://h.example/services/…",
    "": "",
}


@pytest.mark.parametrize(("url", "shown"), CASES.items())
def test_an_address_is_shortened_to_its_first_segment(url: str, shown: str) -> None:
    """The migration of stored rows follows the same rule, and a second run changes nothing."""
    assert shorten_address(url) == MIGRATION.shorten(url) == shown
    assert shorten_address(shown) == shown


@pytest.fixture
def root_log() -> Iterator[io.StringIO]:
    """Return what reaches the handlers of the root logger; caplog also hears loggers that stop."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    yield log
    logging.getLogger().removeHandler(handler)


def test_the_path_of_an_address_is_shown_nowhere(
    receiver: Receiver,
    operator: Api,
    mara: Client,
    tmp_path: Path,
    root_log: io.StringIO,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither pages, the API, the admin, the journal, files nor the log have it (SEC-6)."""
    receiver.answer = 500
    project, secret = make_project(), "XXXXSECRET"
    base = f"127.0.0.1:{receiver.port}/services/T0/{secret}"
    hook = operator("POST", "/webhooks", {"name": "hook", "url": f"http://{base}"})
    json_channel = {"name": "json", "url": f"json://{base}"}
    person = operator("POST", "/notification-channels", json_channel)
    assert (hook.status_code, person.status_code) == (201, 201)
    shown = f"http://127.0.0.1:{receiver.port}/services/…"
    assert hook.body["address"] == shown
    assert person.body["address"] == shown.replace("http", "json")
    make_task(make_agent(), now=timezone.now())
    run_clock()
    operator("POST", f"/webhooks/{hook.body['id']}/test")
    operator("POST", f"/notification-channels/{person.body['id']}/test")
    assert len(receiver.received) >= 3
    paths = ("webhooks", f"webhooks/{hook.body['id']}", "notification-channels", "deliveries")
    texts = [operator("GET", f"/{each}").content.decode() for each in (*paths, "events")]
    for address in (
        "/settings/notifications/",
        "/settings/deliveries/",
        "/activity/",
        path(Channel),
        path(Channel, f"{hook.body['id']}/change/"),
        path(Channel, f"{person.body['id']}/change/"),
    ):
        page = mara.get(address)
        assert page.status_code == 200, address
        texts.append(page.content.decode())
    call_command("export", str(tmp_path))
    call_command("project", "export", project.name, str(tmp_path / "project.jsonl"))
    texts += [each.read_text(errors="replace") for each in tmp_path.rglob("*") if each.is_file()]
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'select coalesce(string_agg(t::text, chr(10)), $$$$) from "{table}" t')
            texts.append(cursor.fetchone()[0])
    assert shown in "".join(texts)
    texts += [root_log.getvalue(), *capsys.readouterr()]
    assert [text for text in texts if secret in text] == []


def test_stored_addresses_are_shortened(receiver: Receiver) -> None:
    """An earlier version stored the whole path beside the encrypted address."""
    channel = make_webhook(receiver, project=None).channel
    long = "https://hooks.slack.com/services/T0/B0/XXXX"
    Channel.objects.filter(pk=channel.pk).update(shown_address=long)
    MIGRATION.shorten_addresses(apps, None)
    channel.refresh_from_db()
    assert channel.shown_address == "https://hooks.slack.com/services/…"
