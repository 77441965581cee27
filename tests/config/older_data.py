"""Work on the database of DATABASE_URL, in a process of its own.

`build` fills it with rows in every state, also by the files of an older version; `read TOKEN` reads
everything through the API and the pages. With further arguments, such as `ledger.0002_…`, it then
takes the database back to older migrations, as an older version would have left it.
"""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402 - after Django's setup
from django.core.management import call_command  # noqa: E402
from django.test import Client, override_settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from ledger.access.audit import audit  # noqa: E402
from ledger.states import InstructionState, TaskState  # noqa: E402
from tests.dashboard.worked import make_plan, make_task  # noqa: E402
from tests.factories import make_agent, make_instruction, make_project, make_token  # noqa: E402

LISTS = ("tasks", "instructions", "plans", "escalations", "dead-letters", "events", "agents")
PAGES = ("", "escalations", "instructions", "tasks", "plans", "dead-letters", "patterns")
PAGES += ("agents", "activity", "settings")

UNHASHED = "django.contrib.staticfiles.storage.StaticFilesStorage"


def build() -> None:
    make_project()
    now = timezone.now()
    for state in TaskState:
        make_task(state, agent=make_agent(f"does-{state}"), now=now)
    # the idle check that lets one fail would send a delivered one again
    for kind in sorted(InstructionState, key=lambda state: state == InstructionState.DELIVERED):
        make_instruction(kind, agent=make_agent(f"hears-{kind}"))
    make_plan("03-01", [("Lay", []), ("Build", [1])], now=now)
    User.objects.create_superuser("mara")
    print(make_token("operator"))


def revert(*targets: str) -> None:
    for target in targets:
        call_command("migrate", *target.split("."), verbosity=0, skip_checks=True)


def read(token: str) -> None:
    api, pages = Client(headers={"Authorization": f"Bearer {token}"}), Client()
    pages.force_login(User.objects.get())
    found: dict[str, list[str]] = {}
    for noun in LISTS:
        rows = api.get(f"/v1/{noun}", {"limit": 100}).json()["data"]
        found[noun] = sorted({row.get("state", "") for row in rows})
        if noun == "events":
            continue
        for row in rows:
            assert api.get(f"/v1/{noun}/{row['id']}").status_code == 200, (noun, row)
            assert pages.get(f"/{noun}/{row['id']}/").status_code == 200, (noun, row)
    for page in PAGES:
        assert pages.get(f"/{page}/" if page else "/").status_code == 200, page
    body = json.dumps({"agent": "does-queued", "type": "code", "title": "New"})
    created = api.post("/v1/tasks", body, content_type="application/json")
    assert created.status_code == 201, created.content
    assert list(audit()) == []
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1] == "build":
        build()
    else:
        with override_settings(STORAGES={"staticfiles": {"BACKEND": UNHASHED}}):
            read(sys.argv[2])
        revert(*sys.argv[3:])
