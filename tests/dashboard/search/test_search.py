"""The search box."""

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import unquote_plus

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.utils import timezone

from dashboard.search import exact, queries
from ledger.models import Agent, Attempt
from ledger.search_words import Common
from retries.journal_readers.new_words import write_words
from retries.models import Escalation, Grouped, Operation
from tests.dashboard.seen import html, rows, words
from tests.dashboard.sessions.conversations import make_session
from tests.dashboard.worked import make_task
from tests.factories import make_agent, make_project, send

HOSTILE = "<script>alert(1)</script>" + "w" * 90


@pytest.mark.parametrize("form", ["{}", "  {} ", '"{}"', "urn:uuid:{}", "`{}`,"])
def test_an_id_lands_on_what_it_names(browser: Client, agent: Agent, form: str) -> None:
    id = send(agent)
    response = browser.get("/search/", {"q": form.format(id)})
    assert response["Location"] == f"/instructions/{id}/"


@pytest.mark.parametrize("form", ["{}", "…{}", "...{}", " '…{}' "])
def test_a_short_id_lands_on_what_it_names(browser: Client, agent: Agent, form: str) -> None:
    """Pages shorten an id to its last 8 digits."""
    now = timezone.now()
    task = make_task("failed", agent=agent, now=now)
    letter, attempt = task.dead_letter, Attempt.objects.get()
    rows = {
        f"/instructions/{send(agent)}/": None,
        f"/tasks/{task.pk}/": task.pk,
        f"/dead-letters/{letter.pk}/": letter.pk,
        f"/agents/{agent.pk}/": agent.pk,
        f"/sessions/{(session := make_session(agent, now=now)).pk}/": session.pk,
    }
    for to, id in rows.items():
        short = form.format(str(id or to.split("/")[2])[-8:].upper())
        assert browser.get("/search/", {"q": short})["Location"] == to
    for text in (form.format(str(attempt.pk)[-8:]), str(attempt.pk)):
        assert browser.get("/search/", {"q": text})["Location"] == f"/tasks/{task.pk}/"


def test_a_short_id_of_an_old_row_is_found_on_request(
    browser: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    old = make_task("failed", agent=agent, now=now)
    make_task("failed", agent=agent, now=now)
    statement = exact.BY_SHORT_ID.replace(str(exact.SHORT_IDS_SEARCHED), "1")
    monkeypatch.setattr(exact, "BY_SHORT_ID", statement)
    short = str(old.pk)[-8:]
    for form in ({}, {"part": "1"}):
        page = html(browser.get("/search/", {"q": f"…{short}"} | form))
        [link] = re.findall(r'href="(/search/[?][^"]+all=1)"', page)
        assert browser.get(unescape(link))["Location"] == f"/tasks/{old.pk}/"
    lost = html(browser.get("/search/", {"q": "cafebabe", "all": "1"}))
    assert "Nothing found" in lost and "Search all rows" not in lost
    elsewhere = browser.get("/search/", {"q": short, "all": "1", "project": make_project("b").name})
    assert elsewhere.status_code == 200
    assert "Search all rows" not in html(browser.get("/search/", {"q": "nothing"}))


def test_an_agent_s_name_lands_on_its_page(browser: Client, agent: Agent) -> None:
    def found(text: str, **more: str) -> str:
        return str(browser.get("/search/", {"q": text} | more).headers.get("Location", "results"))

    assert found("coder") == found(" 'CODER' ") == f"/agents/{agent.pk}/"
    exact = make_agent("Coder")
    assert found("Coder") == f"/agents/{exact.pk}/" and found("coder") == f"/agents/{agent.pk}/"
    assert found("CODER") == "/agents/?q=CODER"
    other = make_agent("coder", project=make_project("atlas"))
    assert found("coder") == "/agents/?q=coder"
    assert found("coder", project="atlas") == f"/agents/{other.pk}/"
    hexadecimal = make_agent("deadbeef")
    assert found("deadbeef") == f"/agents/{hexadecimal.pk}/"
    assert found("cafebabe") == found("code") == "results"


@pytest.fixture
def world(agent: Agent) -> dict[str, Any]:
    """A task, a failed and an escalated one, an instruction, a plan, and another project's."""
    now = timezone.now()
    why = {"message": "ModuleNotFoundError: No module named 'lxml'"}
    other = make_agent("tester", project=make_project("atlas"))
    return {
        "titled": make_task("queued", "Replace xml.etree with lxml", agent=agent, now=now),
        "failed": make_task("failed", "Nightly import", agent=agent, now=now, why=why),
        "asks": make_task("escalated", HOSTILE, agent=agent, now=now, why=why),
        "foreign": make_task("queued", "lxml of another project", agent=other, now=now),
        "told": send(agent, "Add lxml to pyproject.toml"),
    }


def test_results_by_noun(browser: Client, world: dict[str, Any]) -> None:
    """Words of titles, errors and instructions; a group links to the list that shows all."""
    page = html(browser.get("/search/", {"q": "lxml", "part": "1"}))
    for name in ("failed", "asks", "foreign"):  # the newest
        assert f"/tasks/{world[name].pk}/" in page, name
    assert "Show all 4" in page
    assert f"/instructions/{world['told']}/" in page
    question = Escalation.objects.get(task=world["asks"])
    assert f"/escalations/{question.pk}/" in page
    pattern = Grouped.objects.filter(failure__task=world["failed"]).get().pattern
    assert f"/patterns/{pattern.pk}/" in page
    assert "<mark>lxml</mark>" in page and "Filter tasks by error:<mark>lxml" in page
    raw = browser.get("/search/", {"q": "lxml", "part": "1"}).content.decode()
    assert "<script>" not in raw and "&lt;script&gt;" in raw
    only = html(browser.get("/search/", {"q": "lxml", "part": "1", "kind": "instructions"}))
    assert f"/instructions/{world['told']}/" in only and "/tasks/" not in only


def test_all_found_escalations_are_a_click_away(browser: Client, agent: Agent) -> None:
    why = {"message": "ModuleNotFoundError: No module named 'lxml'"}
    for number in range(4):
        make_task("escalated", f"Import {number}", agent=agent, now=timezone.now(), why=why)
    page = html(browser.get("/search/", {"q": "lxml", "part": "1", "kind": "escalations"}))
    assert 'href="/escalations/?q=lxml"' in page and "Show all 4" in page
    assert len(rows(browser.get("/escalations/", {"q": "lxml"}), "esc")) == 4
    snoozed = Escalation.objects.order_by("id")[0]
    snoozed.snoozed_until = timezone.now() + timedelta(hours=1)
    snoozed.save()
    found = browser.get("/search/", {"q": "lxml", "part": "1", "kind": "escalations"})
    assert "Escalations 3" in words(found) and f"/escalations/{snoozed.pk}/" not in html(found)


def test_common_words_are_searched_in_the_first_open_escalations(
    browser: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results say so, and lead to the list that searches all."""
    for name in ("lxml", "disk", "lxml"):
        make_task("escalated", agent=agent, now=timezone.now(), why={"message": f"no {name} here"})
    monkeypatch.setattr(queries, "MANY", 1)

    def find(text: str, walked: int) -> str:
        monkeypatch.setattr(queries, "WALKED", walked)
        statement = f"select exists ({queries.OPEN} offset {walked}) as found"
        monkeypatch.setattr(queries, "ARE_MANY_OPEN", statement)
        return words(browser.get("/search/", {"q": text, "part": "1", "kind": "escalations"}))

    assert "Escalations 2 " in find("lxml", 3) and "Search all" not in find("lxml", 3)
    for walked in (2, 1):
        found = find("lxml", walked)
        assert "Escalations 1+ " in found and "Search all open escalations" in found
    assert "Escalations Search all open escalations" in find("disk", 1)


def test_all_of_an_error_s_text_is_searched(browser: Client, agent: Agent) -> None:
    """Also where it looks like a filter."""
    error = "KeyError:'EUR' in rates"
    for number in range(4):
        why = {"message": error}
        make_task("failed", f"Import {number}", agent=agent, now=timezone.now(), why=why)
    page = html(browser.get("/search/", {"q": error, "part": "1", "kind": "tasks"}))
    (more,) = re.findall(r'href="(/tasks/\?q=[^"]+)"[^>]*>\s*Show all 4', page)
    listed = browser.get(unquote_plus(more.partition("?")[0]), {"q": unquote_plus(more)[10:]})
    assert len(rows(listed, "task")) == 4 and "There is no filter" not in words(listed)
    for project in ("atlas", "beta"):
        make_agent("team:coder", project=make_project(project))
    several = browser.get("/search/", {"q": "team:coder"})
    assert several["Location"] == "/agents/?q=%22team%3Acoder%22"
    assert "team:coder" in words(browser.get(several["Location"]))


def test_operations_and_patterns_are_found_as_pages_print_them(
    browser: Client, agent: Agent, mara: User
) -> None:
    now = timezone.now()
    task = make_task("failed", agent=agent, now=now, why={"message": "No module named 'lxml'"})
    pattern = Grouped.objects.get(failure__task=task).pattern
    form = {"id": task.dead_letter.pk, "counted_at": now.isoformat(), "confirmed": "yes"}
    browser.post("/operations/new/dead_letter.dismiss/", form)
    operation = Operation.objects.get()
    for text, to in (
        (pattern.fingerprint, f"/patterns/{pattern.pk}/"),
        (pattern.fingerprint[:8].upper(), f"/patterns/{pattern.pk}/"),
        (str(operation.pk), f"/operations/{operation.pk}/"),
        (f"…{str(operation.pk)[-8:]}", f"/operations/{operation.pk}/"),
    ):
        assert browser.get("/search/", {"q": text}).headers.get("Location") == to, text
    make_project("atlas")
    nowhere = browser.get("/search/", {"q": pattern.fingerprint, "project": "atlas"})
    assert "Nothing found" in words(nowhere)


def test_results_keep_to_the_project(browser: Client, world: dict[str, Any]) -> None:
    page = html(browser.get("/search/", {"q": "lxml", "part": "1", "project": "atlas"}))
    assert f"/tasks/{world['foreign'].pk}/?project=atlas" in page
    assert f"{world['titled'].pk}" not in page and f"{world['told']}" not in page
    own = str(world["titled"].pk)
    for text in (own, own[-8:]):
        here = browser.get("/search/", {"q": text, "project": "atlas", "part": "1"})
        assert "Exact match" not in html(here)
        assert "Exact match" in html(browser.get("/search/", {"q": text, "part": "1"}))


def test_the_list_of_tasks_finds_the_same(browser: Client, world: dict[str, Any]) -> None:
    found = rows(browser.get("/tasks/", {"q": "lxml"}), "task")
    names = ("titled", "failed", "asks", "foreign")
    assert set(found) == {str(world[name].pk) for name in names}


def test_a_search_takes_few_statements(
    browser: Client, statements: Callable[..., int], world: dict[str, Any]
) -> None:
    assert statements(browser, "/search/", {"q": "…cafebabe"}) <= 15
    assert statements(browser, "/search/", {"q": "lxml runner", "part": "1"}) <= 13
    assert statements(browser, "/search/", {"q": "lxml", "part": "1"}) <= 12


@pytest.mark.parametrize(
    "text", ["", "run the tests", "agent:coder", "a&b=c\x00", "%_\\", "'; --", "?!", "w" * 900]
)
def test_any_text_shows_a_page(browser: Client, world: dict[str, Any], text: str) -> None:
    """Without a script the box is a form; the page has results or says that there are none."""
    for more in ({}, {"part": "1"}):
        page = words(browser.get("/search/", {"q": text} | more))
        assert ("Nothing found" in page) == bool(text)
    assert "New instruction" in words(browser.get("/search/"))


def test_an_id_of_nothing_says_that_nothing_matches(browser: Client, agent: Agent) -> None:
    assert "Nothing found" in words(browser.get("/search/", {"q": str(uuid.uuid4())}))


def test_actions_by_permission(client: Client, browser: Client) -> None:
    assert "/instructions/new/" in html(browser.get("/search/", {"q": "instruction", "part": "1"}))
    viewer = User.objects.create_user("vera", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_task"))
    client.force_login(viewer)
    page = html(client.get("/search/", {"q": "instruction", "part": "1"}))
    assert "/instructions/" not in page and "/agents/" not in page


def test_an_agent_is_paused_and_resumed_from_the_palette(browser: Client, agent: Agent) -> None:
    """Each result is a form for people who may act, with only the verb that fits the agent."""
    make_agent("<b>coder")
    for verb, other in (("pause", "resume"), ("resume", "pause")):
        url = f"/agents/{agent.pk}/{verb}/"
        for text in ("coder", f"{verb} coder", f"{verb[:3]} agent CODER"):
            page = html(browser.get("/search/", {"q": text, "part": "1"}))
            assert f'action="{url}"' in page, text
            assert f"/{agent.pk}/{other}/" not in page
        raw = browser.get("/search/", {"q": verb + " <b>", "part": "1"}).content.decode()
        assert "<b>coder" not in raw
        assert f"/{agent.pk}/" not in html(browser.get("/search/", {"q": verb, "part": "1"}))
        browser.post(url)
        agent.refresh_from_db()
        assert agent.paused == (verb == "pause")
    viewer = User.objects.create_user("vera", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_agent"))
    client = Client()
    client.force_login(viewer)
    page = html(client.get("/search/", {"q": "pause coder", "part": "1"}))
    assert "/pause/" not in page and "Pause agent" not in page


def test_the_nearest_word_is_offered(browser: Client, world: dict[str, Any]) -> None:
    """Of the words of the project; the link searches for it, and only what is unknown changes."""

    def nearest(text: str, **more: str) -> str:
        page = html(browser.get("/search/", {"q": text, **more}))
        found = re.search(r"Did you mean <a[^>]* href=.([^\"]+). data-nearest", page)
        return unquote_plus(found[1]) if found else ""

    assert nearest("lxlm") == "/search/?q=lxml"
    assert nearest("Nightly imprt") == "/search/?q=nightly import"
    assert nearest("qqqqqqqqq") == nearest("lxml") == nearest(str(uuid.uuid4())) == ""
    assert nearest("nighly", project="atlas") == "", "no word of another project is told"
    assert nearest("nighly", project="default") == "/search/?q=nightly&project=default"


RARE, EVERYWHERE = (
    Common(own=False, failed=False, told=False),
    Common(own=True, failed=True, told=True),
)
STATEMENTS = (
    queries.tasks_statement,
    queries.escalations_statement,
    queries.instructions_statement,
)


@pytest.mark.parametrize("common", [RARE, EVERYWHERE])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_search_reads_no_whole_table(
    world: dict[str, Any], statement: Callable[[Common], str], common: Common
) -> None:
    plan = explain(statement(common))
    for table in (
        "ledger_task",
        "ledger_taskwords",
        "ledger_failure",
        "ledger_instruction",
        "ledger_instructionwords",
        "retries_escalation",
    ):
        assert f"Seq Scan on {table} " not in plan, plan


def test_rare_words_are_read_from_their_indexes(world: dict[str, Any]) -> None:
    """Even if PostgreSQL takes them for common, because it knows nothing about them."""
    plan = explain(queries.tasks_statement(RARE))
    assert "Bitmap Index Scan on failure_search" in plan
    assert "Bitmap Index Scan on task_words" in plan


def explain(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
        cursor.execute("set local enable_indexscan = off")  # an index of words has bitmaps only
        values = {"words": "'rare':*", "project": None, "like": "%rare%"}
        values |= {"fresh": [], "fresh_told": []}
        cursor.execute(f"explain {statement}", values)
        return "\n".join(row[0] for row in cursor.fetchall())


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("many", [1, 1_000])
def test_common_words_find_the_same(
    world: dict[str, Any], monkeypatch: pytest.MonkeyPatch, many: int, is_written: bool
) -> None:
    """Of words that many rows have, the newest rows; here from the first row, or never."""
    if is_written:
        write_words(now=timezone.now())
    monkeypatch.setattr(queries, "MANY", many)
    search = queries.prepare_search(["lxml"])
    found = queries.find_tasks(search, None)
    names = ("foreign", "asks", "failed", "titled")
    assert [row["id"] for row in found.rows] == [world[name].pk for name in names[:3]]
    assert found.count == 4
    assert queries.find_tasks(search, world["titled"].project_id).count == 3
    assert queries.find_escalations(search, None).count == 1
    assert queries.find_escalations(search, world["foreign"].project_id).count == 0
    assert [row["id"] for row in queries.find_instructions(search, None).rows] == [world["told"]]
    assert queries.find_instructions(search, world["foreign"].project_id).count == 0
