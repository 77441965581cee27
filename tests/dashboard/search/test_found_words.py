"""The words that a row shows find it: headline and telling lines, in every list."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.lists import shared_queries
from dashboard.search import queries
from dashboard.templatetags.tenfour import marked
from ledger.models import Agent, Failure, Task
from retries.failures.outputs.telling_lines import (
    MOST_CHARACTERS,
    MOST_WORDS,
    PART,
    find_telling_lines,
)
from retries.journal_readers import new_words
from retries.models import Escalation, FailurePattern, Grouped
from retries.retention.task_rows import clear_payloads
from tests.dashboard.seen import html, rows, words
from tests.dashboard.worked import make_task
from tests.factories import make_agent

MESSAGE = "make test returned exit code 1"
PASSED = "\n".join(f"tests/test_part.py::test_step_{n} PASSED [ {n}%]" for n in range(60))
HEADLINE = "ModuleNotFoundError: No module named '{}'"


def output(module: str) -> str:
    return f"{PASSED}\nE   {HEADLINE.format(module)}\nfatal: could not read quuxfile\n{PASSED}"


def why(module: str) -> dict[str, Any]:
    verification = {"command": "make test", "exit_code": 1, "output": output(module)}
    return {"message": MESSAGE, "type": "verification_failed", "verification": verification}


@pytest.fixture
def world(agent: Agent) -> dict[str, Task]:
    now = timezone.now()
    other = make_agent("tester")
    return {
        "weasyprint": make_task("escalated", "One", agent=agent, now=now, why=why("weasyprint")),
        "numpy": make_task("escalated", "Two", agent=other, now=now, why=why("numpy")),
        "failed": make_task("failed", "Three", agent=agent, now=now, why=why("weasyprint")),
    }


WHERE = {"/tasks/": "task", "/escalations/": "esc", "/dead-letters/": "dl"}
TEXTS = ("weasyprint", "ModuleNotFoundError", "quuxfile", HEADLINE.format("weasyprint"))


@pytest.mark.django_db
@pytest.mark.parametrize("text", [*TEXTS, *(f'error:"{text}"' for text in TEXTS)])
def test_a_word_of_the_output_finds_the_row(
    browser: Client, world: dict[str, Task], text: str
) -> None:
    """OPR-1: by plain word, pasted headline and `error:`, in Tasks, the inbox and dead letters."""
    is_general = "weasyprint" not in text
    found = set(rows(browser.get("/tasks/", {"q": text}), "task"))
    asked = {world["weasyprint"], world["failed"], *([world["numpy"]] if is_general else [])}
    assert found == {str(task.pk) for task in asked}
    inbox = words(browser.get("/escalations/", {"q": text}))
    assert ("No escalation" not in inbox) and HEADLINE.format("weasyprint") in inbox
    assert (HEADLINE.format("numpy") in inbox) == is_general
    letters = html(browser.get("/dead-letters/", {"q": text}))
    assert f"/dead-letters/{world['failed'].dead_letter.pk}/" in letters


@pytest.mark.django_db
def test_one_line_asks_for_a_word_of_one_agent_and_day(
    browser: Client, world: dict[str, Task]
) -> None:
    """OPR-1: all failures with this word in their output, last day, one agent."""
    Task.objects.filter(pk=world["failed"].pk).update(updated_at=timezone.now() - timedelta(days=2))
    for text, found in {
        "error:weasyprint agent:coder changed:1d": ["weasyprint"],
        "error:quuxfile agent:tester changed:1d": ["numpy"],
        "error:quuxfile -error:numpy changed:1d": ["weasyprint"],
        "error:step_31": [],  # a line that does not tell why it failed
    }.items():
        listed = rows(browser.get("/tasks/", {"q": text}), "task")
        assert listed == [str(world[name].pk) for name in found], text
    inbox = words(browser.get("/escalations/", {"q": "-error:numpy"}))
    assert "'weasyprint'" in inbox and "'numpy'" not in inbox


@pytest.mark.django_db
@pytest.mark.parametrize("read", ["rare", "common", "newest"])
def test_a_pattern_is_found_by_each_of_its_signatures(
    browser: Client, world: dict[str, Task], monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """OPR-1: also by the second module, and also where more failures than are read have a word."""
    statement = shared_queries.WITH_WORDS
    if read != "rare":
        statement = statement.replace(str(shared_queries.MOST_FAILURES), "0")
    if read == "newest":  # the sample says that it is common, and no index of words is read
        statement = statement.replace(">= 2000000", "> -1000000").replace("= 0 end", "= 1 end")
    assert (statement == shared_queries.WITH_WORDS) == (read == "rare")
    monkeypatch.setattr(shared_queries, "WITH_WORDS", statement)
    (pattern,) = FailurePattern.objects.all()
    assert Grouped.objects.values("signature").distinct().count() == 2
    for word in ("numpy", "weasyprint", "quuxfile", "error:numpy", "pattern:numpy"):
        page = html(browser.get("/patterns/", {"q": word}))
        assert f"/patterns/{pattern.pk}/" in page, word
    assert f"/patterns/{pattern.pk}/" not in html(browser.get("/patterns/", {"q": "polars"}))
    listed = rows(browser.get("/tasks/", {"q": "pattern:numpy"}), "task")
    assert len(listed) == 3
    results = html(browser.get("/search/", {"q": "numpy", "part": "1", "kind": "patterns"}))
    assert f"/patterns/{pattern.pk}/" in results


@pytest.mark.django_db
def test_results_show_the_headline_of_the_inbox(browser: Client, world: dict[str, Task]) -> None:
    """OPR-1: not "make test returned exit code 1"; what was found is marked."""
    for kind in ("tasks", "escalations"):
        page = html(browser.get("/search/", {"q": "numpy", "part": "1", "kind": kind}))
        assert "No module named '<mark>numpy</mark>'" in page and MESSAGE not in page
    assert HEADLINE.format("numpy") in words(browser.get("/escalations/"))


@pytest.mark.django_db
@pytest.mark.parametrize("in_newest", [True, False])
def test_a_suggestion_leads_to_rows(
    browser: Client, world: dict[str, Task], monkeypatch: pytest.MonkeyPatch, in_newest: bool
) -> None:
    """OPR-22: "Filter tasks by error:…" and "Did you mean" are offered where they find something."""
    if not in_newest:
        statement = queries.HAS_FAILURE_WITH.replace(f"limit {shared_queries.SAMPLED})", "limit 0)")
        assert statement != queries.HAS_FAILURE_WITH
        monkeypatch.setattr(queries, "HAS_FAILURE_WITH", statement)
    for text, is_offered in {"zzqqx": False, "numpy": True, "module named": True}.items():
        page = words(browser.get("/search/", {"q": text, "part": "1"}))
        assert ("Filter tasks by" in page) == is_offered, text
    lost = html(browser.get("/search/", {"q": "tetser onee"}))
    assert "Nothing found" in lost and "Did you mean" not in lost
    by_type = html(browser.get("/search/", {"q": "code", "part": "1", "kind": "escalations"}))
    assert f"{Escalation.objects.get(task=world['numpy']).pk}" in by_type
    assert HEADLINE.format("numpy") in words(browser.get("/escalations/", {"q": "code"}))


@pytest.mark.parametrize(
    ("text", "word", "found"),
    [
        ("Drop old_invoices?", "old_invoices", "Drop <mark>old_invoices</mark>?"),
        ("Drop old_invoices?", "invoices", "Drop old_<mark>invoices</mark>?"),
        ("Drop `old_invoices`", "old-inv", "Drop `<mark>old_inv</mark>oices`"),
        ("reinvoices", "invoices", "reinvoices"),
        ("a <b>", "?! <", "a &lt;b&gt;"),
    ],
)
def test_found_words_are_marked(text: str, word: str, found: str) -> None:
    """OPR-22: a word begins after anything but a letter or a digit, as in the search."""
    assert marked(text, word.split()) == found


@pytest.mark.django_db
def test_older_failures_get_their_lines_from_the_clock(
    browser: Client, world: dict[str, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPR-1: batch after batch, and again after a part of the texts was deleted."""
    stored = dict(Failure.objects.values_list("pk", "telling_lines"))
    Failure.objects.update(telling_lines=None)
    assert rows(browser.get("/tasks/", {"q": "weasyprint"}), "task") == []
    monkeypatch.setattr(new_words, "MOST_FAILURE_BATCHES", 2)
    one = new_words.UNREAD.replace(f"limit {new_words.FAILURES_IN_BATCH}", "limit 1")
    monkeypatch.setattr(new_words, "UNREAD", one)
    monkeypatch.setattr(new_words, "FAILURES_IN_BATCH", 1)
    runs = [new_words.write_words(now=timezone.now()).get("failures", 0) for _ in range(3)]
    assert runs == [2, 1, 0]
    assert dict(Failure.objects.values_list("pk", "telling_lines")) == stored
    Failure.objects.update(details="ValueError: gone with the payload")
    clear_payloads([world["failed"].pk])
    assert Failure.objects.filter(telling_lines=None).count() == 1
    new_words.write_words(now=timezone.now())
    assert dict(Failure.objects.values_list("pk", "telling_lines")) == stored


@pytest.mark.django_db
def test_no_secret_becomes_a_word(browser: Client, agent: Agent) -> None:
    """OPR-1: what a client reports counts after redaction only."""
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    lines = f"fatal: could not use token {secret}\nError: refused"
    for more in ({"details": lines}, {"verification": {"output": lines}}):
        make_task("failed", agent=agent, now=timezone.now(), why={"message": MESSAGE} | more)
    assert rows(browser.get("/tasks/", {"q": secret}), "task") == []
    assert len(rows(browser.get("/tasks/", {"q": "refused token"}), "task")) == 2
    assert not Failure.objects.filter(telling_lines__contains=secret[4:]).exists()


def test_the_words_of_a_failure_are_limited() -> None:
    """OPR-1: the index grows by a bounded number of words per failure."""
    long = "\n".join(f"error: name{n} {'w' * (n % 300)} cannot be read, x{n}" for n in range(3000))
    short = "\n".join(f"error {n}{n} e{n}a e{n}b e{n}c e{n}d" for n in range(3000))
    for text in (long, short, "error: " + "x y " * 90_000):
        found = find_telling_lines(text, text, MESSAGE)
        assert 0 < len(found) <= MOST_CHARACTERS
        assert len(set(PART.findall(found))) <= MOST_WORDS
    assert find_telling_lines("", "", MESSAGE) == MESSAGE
    assert find_telling_lines("ran\nError: a", "", "ran\nError: a") == "Error: a"
