"""One version as a server: reads calls as JSON lines, and answers each with a line.

It runs on the files of either version. A call is a request of the API, a page, a sweep, or all of
them. Every figure is cached, also one that took no time: what one version stores, the other may
find.
"""

import json
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402 - after Django's setup
from django.test import Client, override_settings  # noqa: E402

from retries import sweeps  # noqa: E402

# It has moved since the last release.
MOVED = find_spec("ledger.database")
optional_cache = import_module(
    "ledger.database.optional_cache" if MOVED else "ledger.optional_cache"
)

UNHASHED = "django.contrib.staticfiles.storage.StaticFilesStorage"


def answer(call: dict[str, Any]) -> tuple[int, Any]:
    """Return the status and the body of the answer."""
    if "sweep" in call:
        return 200, sweeps.run(call["sweep"])
    if "sweeps" in call:
        return 200, [sweeps.run(name) for name in sweeps.ENTRIES]
    if "page" in call:
        pages = Client()
        pages.force_login(User.objects.get())
        return pages.get(call["page"]).status_code, None
    headers = {"Authorization": f"Bearer {call['token']}"}
    if call["body"] is None:
        response = Client(headers=headers).get(f"/v1{call['path']}")
    else:
        body = json.dumps(call["body"])
        response = Client(headers=headers).post(
            f"/v1{call['path']}", body, content_type="application/json"
        )
    return response.status_code, json.loads(response.content or b"null")


if __name__ == "__main__":
    optional_cache.FRESH_SECONDS, optional_cache.WORTH = -1, 10**6
    with override_settings(STORAGES={"staticfiles": {"BACKEND": UNHASHED}}):
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line)), default=str), flush=True)
