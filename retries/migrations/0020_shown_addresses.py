"""Shorten the stored addresses that pages show: a path may be as secret as a query."""

import re
from typing import Any

from django.db import migrations

# The rule of `retries.notifications.shown_addresses` when this was written.
PARTS = re.compile(r"([^:/?#]*://)?([^/?#]*)(/[^/?#]*)?(.*)", re.DOTALL)
KEY = re.compile(r"/(?=\D*\d)[\w-]{16,}")


def shorten_addresses(apps: Any, editor: Any) -> None:
    channels = apps.get_model("retries", "Channel").objects
    for channel_id, shown in channels.values_list("pk", "shown_address"):
        if shorten(shown) != shown:
            channels.filter(pk=channel_id).update(shown_address=shorten(shown))


def shorten(url: str) -> str:
    found = PARTS.fullmatch(url)
    assert found
    scheme, host, first, rest = (part or "" for part in found.groups())
    if KEY.fullmatch(first):
        first, rest = "", first
    if rest.strip("/"):
        first = first.rstrip("/") + "/…"
    return scheme + host + first


class Migration(migrations.Migration):
    dependencies = [("retries", "0019_failure_count")]

    operations = [migrations.RunPython(shorten_addresses, migrations.RunPython.noop)]
