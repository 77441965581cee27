"""Importing a plan on the page."""

import re
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from ledger.models import Agent, Plan, Task
from tests.bad_plans import BAD_PLANS
from tests.dashboard.plans.conftest import FILE, IMPORT, MARKDOWN, address, form
from tests.dashboard.seen import html, words


def test_an_import_is_previewed_first(browser: Client, agent: Agent) -> None:
    assert "commands run on its agents’ machines" in words(browser.get(IMPORT))
    shown = browser.post(IMPORT, form())
    text = words(shown)
    assert "Nothing is imported yet." in text and "2 tasks will be added" in text
    assert "commands run on its agents’ machines" in text
    assert "2, 1 with a command" in text and "make test > /dev/null" in text
    assert "Add the &lt;tables&gt;" in shown.content.decode()
    assert not Plan.objects.exists() and not Task.objects.exists()
    made = browser.post(IMPORT, form(confirmed="yes"), follow=True)
    plan = Plan.objects.get()
    assert made.redirect_chain[-1][0] == address(plan)
    assert "Imported: 2 added." in words(made)
    assert plan.created_by_name == "mara"


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_command_found_in_prose_runs_only_after_confirmation(
    browser: Client, agent: Agent, confirmed: bool
) -> None:
    shown = words(browser.post(IMPORT, form(MARKDOWN)))
    assert "$ npm test -- Error proposed, not run" in shown
    assert "Confirm 1 proposed command found in the plan’s prose" in shown
    more = {"confirm_commands": "on"} if confirmed else {}
    browser.post(IMPORT, form(MARKDOWN, confirmed="yes", **more))
    verify = Task.objects.get().payload["verify"]
    assert verify.get("command") == ("npm test -- Error" if confirmed else None)


def test_the_default_agent_is_for_plans_without_an_agent(browser: Client, agent: Agent) -> None:
    """Many plans in Markdown name no agent; the preview passes the default agent on."""
    wild = MARKDOWN.replace("agent: coder\n", "")
    refused = browser.post(IMPORT, form(wild))
    assert refused.status_code == 422 and "/agent" in refused.content.decode()
    page = html(browser.post(IMPORT, form(wild, agent="coder")))
    fields = dict(re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)"', page))
    browser.post(IMPORT, form(wild, confirmed="yes", agent=fields["agent"]))
    assert Task.objects.get().agent == agent


def test_the_preview_passes_an_uploaded_file_on(browser: Client, agent: Agent) -> None:
    upload = SimpleUploadedFile("plan.yaml", FILE.encode())
    shown = html(browser.post(IMPORT, form("", file=upload)))
    assert "<b>2 tasks</b> will be added" in shown and "needs: task-1" in shown
    bad = SimpleUploadedFile("plan.yaml", b"\xff\xfe")
    refused = browser.post(IMPORT, form("", file=bad))
    assert (
        refused.status_code == 422
        and "not valid UTF-8 at byte 0 (line 1)" in refused.content.decode()
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Paste a plan or choose a file."),
        ("tasks: [", "The plan is not valid YAML"),
        (FILE.replace("03-01", "nonsense"), "is not a plan's ref"),
        (FILE.replace("task-1", "task-2"), "/tasks/1/needs"),
        (FILE.replace("coder", "nobody"), "nobody"),
    ],
)
def test_an_invalid_plan_is_refused_and_its_text_stays(
    browser: Client, agent: Agent, text: str, says: str
) -> None:
    refused = browser.post(IMPORT, form(text, confirmed="yes"))
    assert refused.status_code == 422
    page = unescape(refused.content.decode())
    assert says in page and text in page
    assert not Plan.objects.exists()


def test_an_error_stands_at_its_field_and_names_the_nearest_agents(
    browser: Client, agent: Agent
) -> None:
    unknown = FILE.replace("agent: coder", "agent: codr")
    page = html(browser.post(IMPORT, form(unknown)), 422)
    assert find_problem_field(page) == "text"
    assert "Nearest: coder." in page and "check “Register unknown agents”" in page
    for text, more, field in (
        (MARKDOWN.replace("agent: coder\n", ""), {"agent": "codr"}, "agent"),
        (MARKDOWN.replace("agent: coder\n", ""), {}, "agent"),
        ("- [ ] One\n", {"ref": "x", "agent": "coder"}, "ref"),
    ):
        assert find_problem_field(html(browser.post(IMPORT, form(text, **more)), 422)) == field


def find_problem_field(page: str) -> str:
    """Return the field before the problem, to which the summary leads."""
    before = page[: page.index('class="import__problem"')]
    field = re.findall(r'id="import-(file|text|agent|ref|mode)"', before)[-1]
    assert f'href="#import-{field}"' in page
    return str(field)


def test_the_preview_of_a_merge(browser: Client, agent: Agent) -> None:
    browser.post(IMPORT, form(confirmed="yes"))
    changed = FILE.replace("title: Backfill", "title: Backfill 2024") + (
        "  - {title: Review, agent: coder, needs: task-2}\n"
    )
    refused = browser.post(IMPORT, form(changed))
    assert refused.status_code == 422
    assert "Plan 03-01 already exists with different content" in refused.content.decode()
    shown = words(browser.post(IMPORT, form(changed, mode="merge")))
    assert "1 task will be added" in shown
    assert "1 task will be updated: 03-01:task-2" in shown.replace(" : ", ": ")
    assert Task.objects.count() == 2
    browser.post(IMPORT, form(changed, mode="merge", confirmed="yes"))
    assert Task.objects.count() == 3
    same = words(browser.post(IMPORT, form(changed, mode="merge")))
    assert "This plan is already imported" in same and "Import 03-01" not in same


def test_the_preview_names_what_a_merge_cannot_tell(browser: Client, agent: Agent) -> None:
    from tests.ledger.plans.test_import_writer import do

    lists = {"ref": "05-01", "agent": "coder", "mode": "merge"}
    browser.post(IMPORT, form("- [ ] Write the export\n- [ ] Ship\n", **lists, confirmed="yes"))
    do(agent, "05-01:task-1")
    renamed = "- [ ] Write the import\n- [ ] Ship\n"
    refused = browser.post(IMPORT, form(renamed, **lists))
    assert refused.status_code == 422
    question = html(refused, 422).partition('class="import__question"')[2]
    assert "Write the export</bdi> (done)?" in question and "Another task" in question
    answers = re.findall(r'name="pair" value="([^"]*)"', refused.content.decode())
    assert answers == ["task-1=task-1", "task-1=new"]
    shown = browser.post(IMPORT, form(renamed, **lists, pair=answers[0]))
    assert "started, stays" in words(shown)
    assert 'name="pairs" value="task-1=task-1"' in shown.content.decode()
    shown = browser.post(IMPORT, form(f"- [ ] First\n{renamed}", **lists, pairs="2=1"))
    assert "is task-1 Write the export : named by the caller" in words(shown)


def test_one_click_says_that_a_guess_is_wrong(browser: Client, agent: Agent) -> None:
    lists = {"ref": "05-01", "agent": "coder", "mode": "merge"}
    text = "- [ ] Write the export of invoices\n- [ ] Ship\n"
    browser.post(IMPORT, form(text, **lists, confirmed="yes"))
    renamed = text.replace("invoices", "all invoices")
    shown = browser.post(IMPORT, form(renamed, **lists))
    assert "guess is task-1 Write the export of invoices : " in words(shown)
    (answer,) = re.findall(r'name="pair" value="([^"]*)"', shown.content.decode())
    again = words(browser.post(IMPORT, form(renamed, **lists, pair=answer)))
    assert "guess" not in again and "1 task will be added" in again


def test_the_preview_draws_the_file_as_a_tree(browser: Client, agent: Agent) -> None:
    text = (
        "# Plan\n\n- [x] 1. Setup\n- [ ] 2. Model\n- [ ] 2.1 Table (depends on 9)\n"
        "- [ ] 2.2 Index\n\n## Acceptance criteria\n\n- [ ] It is fast\n"
    )
    shown = browser.post(IMPORT, form(text, agent="coder", ref="05-01"))
    page = shown.content.decode()
    rows = page.split('<li class="tree__row')[1:]
    assert [len(rows), [row.count("tree__task--1") for row in rows]] == [4, [0, 0, 1, 1]]
    assert "done in the file" in rows[0] and "after" in rows[1]
    assert "Line 5: ignored the dependency" in rows[2] and "- [ ] 2.1 Table" in rows[2]
    assert "It is fast" in rows[3] and 'aria-label="Done when"' in rows[3]
    assert all('class="tree__arrows"' in row for row in rows)


TASK_MASTER = """{"master": {"tasks": [
  {"id": 1, "title": "Create the table", "status": "done", "dependencies": []},
  {"id": 2, "title": "Fill the table", "status": "pending", "dependencies": [1],
   "testStrategy": "make test", "subtasks": [{"id": 1, "title": "Read the old rows"}]}
]}}"""
CHECKLIST = (
    "# Ledger\n\n### Task 1: Add the tables\n\n- [ ] Write the test\n\n### Task 2: Fill them\n"
)


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        (TASK_MASTER, ["Read the old rows", "Fill the table"]),
        (CHECKLIST, ["Add the tables", "Fill them"]),
    ],
)
def test_a_plan_of_another_tool_is_previewed_first(
    browser: Client, agent: Agent, text: str, titles: list[str]
) -> None:
    values = form(text, agent="coder", ref="03-01")
    shown = browser.post(IMPORT, values)
    page = words(shown)
    assert "2 tasks will be added" in page and all(title in page for title in titles)
    assert ("Left out 1 task that the file marks as done: task-1." in page) == (text is TASK_MASTER)
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', shown.content.decode()))
    assert (hidden["agent"], hidden["ref"]) == ("coder", "03-01")
    browser.post(IMPORT, values | {"confirmed": "yes"})
    plan = Plan.objects.get()
    assert plan.ref == "03-01"
    found = Task.objects.filter(plan=plan).values_list("title", flat=True)
    assert sorted(found) == sorted(titles)


def test_a_plan_without_a_ref_is_named_in_the_preview(browser: Client, agent: Agent) -> None:
    page = words(browser.post(IMPORT, form(CHECKLIST, agent="coder")))
    assert "The file names no ref for its plan; it is plan-ledger." in page


def test_each_line_that_cannot_be_read_is_shown(browser: Client, agent: Agent) -> None:
    text = "<task>\nOne\n</task>\nThen <task>\n<task>\nThree\n"
    page = html(browser.post(IMPORT, form(text, agent="coder", ref="03-01")), 422)
    assert "Line 4: <task> must begin its line." in page
    assert "<li><bdi>Line 5: this task has no </task>.</bdi></li>" in page


@pytest.mark.parametrize("kind", BAD_PLANS)
def test_a_bad_file_is_refused_with_its_line_on_the_page(
    browser: Client, agent: Agent, kind: str
) -> None:
    _, data, says = BAD_PLANS[kind]
    upload = SimpleUploadedFile("plan", data)
    values = form("", file=upload, agent="new", ref="03-01", register="on", confirmed="yes")
    assert says in html(browser.post(IMPORT, values), 422)
    assert not Plan.objects.exists() and not Task.objects.exists() and Agent.objects.count() == 1
