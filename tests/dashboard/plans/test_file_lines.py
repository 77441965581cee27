"""From file to ledger: a plan's page says what became of each line of its file."""

from django.test import Client

from ledger.models import Agent, Plan
from tests.dashboard.plans.conftest import address
from tests.dashboard.seen import words
from tests.ledger.plans.test_identity import create, merge
from tests.ledger.plans.test_import_writer import do, imported


def account(browser: Client) -> str:
    page = words(browser.get(address(Plan.objects.get())))
    return page.partition("From file to ledger ")[2].partition(" Plan activity")[0]


def test_each_line_and_each_dropped_task(browser: Client, agent: Agent) -> None:
    create("# P\n\n- [ ] Alpha\n  - [ ] first\n- [x] Beta\n- [ ] Gamma\n<!-- - [ ] old -->\n")
    do(agent, "03-01:task-1")
    shown = account(browser)
    assert shown.startswith("5 1 task is done, but open in the file")
    assert "The file and the ledger last agreed" in shown
    assert shown.endswith(
        "3 Alpha became task-1 Done 4 first step of task-1 5 Beta done in the file "
        "6 Gamma became task-3 Queued "
        "7 not imported 1 item in a comment"  # the text looks like a comment to `words`
    )
    merge("# P\n\n- [x] Alpha\n  - [x] first\n- [ ] Delta\n")
    shown = account(browser)
    assert "open in the file" not in shown
    assert "No longer in the file task-3 Gamma Queued kept when tenfour imported a" in shown


def test_a_plan_without_lines_has_no_such_part(browser: Client, agent: Agent) -> None:
    imported({"title": "A"})
    assert "From file to ledger" not in words(browser.get(address(Plan.objects.get())))


def test_the_first_lines_of_a_long_file(browser: Client, agent: Agent) -> None:
    steps = "".join(f"  - [ ] step {n}\n" for n in range(400))
    create(f"# P\n\n- [ ] A\n{steps}")
    page = words(browser.get(address(Plan.objects.get())))
    assert "From file to ledger 401" in page and "The first 300 of 401 lines." in page
