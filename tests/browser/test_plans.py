"""Plans in a browser: whole in every theme and width, stopped by key, imported, kept current."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Plan
from retries.plans import aborting
from tests.browser.conftest import Visitor, assert_whole, assert_whole_as_it_is
from tests.dashboard.plans.conftest import IMPORT, MARKDOWN, form
from tests.dashboard.worked import claimed, failed, make_plan
from tests.ledger.plans.test_identity import create, merge
from tests.ledger.plans.test_import_writer import do

HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150
FILE = f"""ref: 07-01
title: "{HOSTILE}"
tasks:
  - title: "{HOSTILE}"
    agent: coder
    verify: {{command: "echo '{"x" * 200}'"}}
  - {{title: Then, agent: coder, needs: task-1}}
"""
# Each task is a part of the one before it, and needs the first one.
DEEP = FILE + "".join(
    f'  - {{title: "أضف {HOSTILE}", agent: coder, needs: [task-1, task-{n - 1}], done: ["{HOSTILE}"], '
    f"payload: {{parent: task-{n - 1}}}}}\n"
    for n in range(3, 41)
)


@pytest.fixture
def plan(coder: Agent, now: datetime) -> Plan:
    """One with something in every picture, of words that try to get out of them."""
    at = now - timedelta(minutes=4)
    tasks = [(HOSTILE, []), ("Second", [1]), ("Third", []), ("Fourth", [3, 1]), ("Fifth", [])]
    plan, ids = make_plan("03-01", tasks, title=HOSTILE, objective=HOSTILE * 3, agent=coder, now=at)
    failed(coder, ids[0], now=at, message=HOSTILE * 5)
    failed(coder, ids[2], now=at, message=HOSTILE * 5)
    claimed(coder, ids[4], now=at)
    return plan


def test_the_pages_are_whole(visit: Callable[..., Visitor], plan: Plan) -> None:
    visitor = visit().signed_in()
    one = f"/plans/{plan.pk}/"
    for path in ("/plans/", one, "/plans/import/"):
        assert_whole(visitor, path)
    assert_whole(visitor, "/plans/?q=state:paused")
    assert_whole(visitor, f"{one}?ask=abort", part="#asked")


def test_what_became_of_a_file_is_whole(visit: Callable[..., Visitor], coder: Agent) -> None:
    create(f"# P\n\n- [ ] {HOSTILE}\n  - [ ] {HOSTILE}\n- [x] Two\n- [ ] Three\n<!-- - [ ] 4 -->\n")
    do(coder, "03-01:task-1")
    merge(f"# P\n\n- [ ] {HOSTILE}\n  - [ ] {HOSTILE}\n- [x] Two\n<!-- - [ ] 4 -->\n")
    path = f"/plans/{Plan.objects.get().pk}/"
    page = assert_whole(
        visit().signed_in(), path, act=lambda page: page.locator("#file-lines summary").click()
    )
    expect(page.locator("#file-lines li")).to_have_count(4)


def test_one_is_stopped_by_its_key(visit: Callable[..., Visitor], plan: Plan) -> None:
    """From the sidebar to the list by G P, from there with J and Enter, then A."""
    visitor = visit()
    page = visitor.sign_in()
    page.keyboard.type("gp")  # in one call, so that the second is in time
    page.wait_for_url("**/plans/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/plans/{plan.pk}/")
    page.keyboard.press("a")
    dialog = page.locator("#abort-dialog")
    expect(dialog).to_contain_text("1 running task")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("a")
    dialog.locator("input[name=reason]").fill("wrong branch")
    dialog.get_by_role("button", name="Abort 03-01").click()
    expect(page.locator("#toasts")).to_contain_text("Plan aborted.")
    expect(page.locator("#history")).to_contain_text("mara aborted it")
    assert Plan.objects.get().state == "aborted"


def test_an_open_page_hears_of_a_task(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    plan, (id,) = make_plan("03-01", [("One", [])], agent=coder, now=now)
    visitor = visit()
    page = visitor.sign_in()
    page.goto(f"{visitor.url}/plans/{plan.pk}/")
    expect(page.locator(f"#task-{id} .st")).to_have_text("Queued")
    claimed(coder, id, now=now)
    expect(page.locator(f"#task-{id} .st")).to_have_text("Running")
    expect(page.locator("#progress")).to_contain_text("1 running")


def test_a_plan_is_imported(visit: Callable[..., Visitor], coder: Agent) -> None:
    visitor = visit()
    page = visitor.sign_in("/plans/import/")
    page.set_input_files(
        "#import-file", {"name": "plan.yaml", "mimeType": "text/yaml", "buffer": DEEP.encode()}
    )
    page.get_by_role("button", name="Preview import").click()
    expect(page.locator("#diff")).to_contain_text("40 tasks will be added")
    expect(page.locator("#preview")).to_contain_text("level 39")
    expect(page.locator("#danger")).to_contain_text("run on its agents’ machines")
    assert_whole_as_it_is(page)
    assert not Plan.objects.exists()
    page.get_by_role("button", name="Import 07-01").click()
    expect(page.locator("#toasts")).to_contain_text("Imported: 40 added.")
    assert visitor.complaints == [] and page.title() != "owned"
    assert Plan.objects.get().title.startswith("<script>")


def test_commands_are_confirmed_and_a_plan_is_restarted(
    visit: Callable[..., Visitor], coder: Agent
) -> None:
    visitor = visit().signed_in()
    task = MARKDOWN.partition("<tasks>\n")[2].partition("</tasks>")[0]
    client = Client()
    client.force_login(User.objects.get())
    client.post(IMPORT, form(MARKDOWN.replace(task, task * 3), confirmed="yes"))
    plan = Plan.objects.get()
    page = visitor.open(f"/plans/{plan.pk}/")
    proposed = page.locator("#proposed")
    expect(proposed.locator(".proposed")).to_have_count(3)
    proposed.get_by_role("button", name="Confirm the command of").first.click()
    expect(page.locator("#toasts")).to_contain_text("Confirmed 1 command.")
    proposed.get_by_role("button", name="Confirm all 2").click()
    expect(page.locator("#toasts")).to_contain_text("Confirmed 2 commands.")
    expect(proposed).to_have_count(0)
    aborting.abort([plan.pk], stamp=Stamp(SYSTEM, timezone.now()))
    page.reload()
    page.keyboard.press("r")
    dialog = page.locator("#restart-dialog")
    expect(dialog).to_contain_text("Reset attempts and failures to 0")
    dialog.get_by_role("button", name=f"Restart {plan.ref}").click()
    expect(page.locator("#toasts")).to_contain_text("Plan restarted as run 2.")
    plan.refresh_from_db()
    assert (plan.state, plan.run) == ("active", 2) and visitor.complaints == []
