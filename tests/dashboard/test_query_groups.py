"""OR and parentheses in the query box of every list."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.completion.lists import LISTS
from dashboard.lists import query_syntax
from dashboard.lists.branches import list_branches
from dashboard.lists.pagination import PAGE
from dashboard.lists.query_box import MAX_CHARACTERS, clean, quote_words
from dashboard.lists.query_syntax import Group, Tree, parse_tree, print_tree, read_beside, simplify
from dashboard.tasks import filters
from dashboard.tasks.queries import filter_tasks
from ledger.models import Agent, DeadLetter, Project, Task
from tests.dashboard.seen import html, rows
from tests.dashboard.test_exports import LISTS as PREFIXES
from tests.dashboard.test_exports import world as two_agents
from tests.dashboard.worked import enqueued
from tests.factories import make_agent

world = two_agents

# ---- the syntax

TERMS = st.sampled_from(["agent:a", "-agent:b", "state:done", 'plan:"a b"', "lxml", '"OR"', "f()"])
ITEMS = st.recursive(
    TERMS,
    lambda items: (
        st.lists(st.lists(items, min_size=1, max_size=3).map(tuple), max_size=3)
        .filter(len)
        .map(lambda found: Group(tuple(found)))
    ),
    max_leaves=8,
)
TREES = st.lists(st.lists(ITEMS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3)


@given(TREES.map(tuple))
def test_a_printed_query_is_read_as_the_same_one(tree: Tree) -> None:
    simple = simplify(tree)
    assert parse_tree(print_tree(simple)) == (simple, [])


@given(st.text(alphabet='() "-:,aOR', max_size=60))
def test_any_text_is_read_and_its_printed_form_is_stable(text: str) -> None:
    tree, _ = parse_tree(clean(text))
    if query_syntax.has_groups(query_syntax.split_pieces(clean(text))):
        assert parse_tree(print_tree(tree)) == (tree, [])
    once = filters.parse(text)
    assert filters.parse(once.text) == once


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("agent:a  OR   agent:b", "agent:a OR agent:b"),
        ("( agent:a OR agent:b )   state:done", "(agent:a OR agent:b) state:done"),
        ("((agent:a OR (agent:b)))", "agent:a OR agent:b"),
        ("(agent:a state:done) lxml", "agent:a state:done lxml"),
        ("(agent:a) agent:b", "(agent:a) agent:b"),
        ("main() or foo)", "main() or foo)"),
        ("(main() OR f(x))", "main() OR f(x)"),
        ("(a OR b)(c OR d)", "(a OR b) (c OR d)"),
        ('("two words" OR "OR")', '"two words" OR "OR"'),
    ],
)
def test_parentheses_that_change_nothing_are_left_out(text: str, printed: str) -> None:
    query = filters.parse(text)
    assert (query.text, query.problems) == (printed, ())
    assert filters.parse(query.text) == query


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agent:a OR", "“OR” at character 9 needs a filter or a word on both sides."),
        ("OR agent:a", "“OR” at character 1 needs a filter or a word on both sides."),
        ("a OR OR b", "“OR” at character 6 needs a filter or a word on both sides."),
        (
            "(agent:a OR agent:b",
            "“(” at character 1 is never closed. Add “)” where the group ends.",
        ),
        ("a OR b) c", "“)” at character 7 closes nothing. Remove it, or put the word in quotes."),
        ("agent:a ()", "“(” at character 9 has nothing inside. Remove it, or add a filter."),
        (
            "-(agent:a OR agent:b)",
            "“-(” at character 1 excludes nothing. Put the minus before each term inside.",
        ),
        (
            "agent:(a OR b)",
            "“agent:(a” at character 1 can’t group values. Write agent:a,b or (agent:a OR agent:b).",
        ),
        (
            "((((((a OR b) OR c) OR d) OR e) OR f) OR g)",
            "“(” at character 6 is nested too deep: at most 5 levels count.",
        ),
        (
            " ".join("a" * 41) + " OR b",
            "“a” at character 81 and later terms are left out: only 40 can be combined.",
        ),
        ("a OR f(x", "“f(x” at character 6 has an open parenthesis. Put it in quotes."),
        ("(agnet:a OR lxml)", "There is no filter “agnet”. Did you mean “agent:a”? "),
    ],
)
def test_a_problem_names_its_place_and_keeps_the_text(text: str, problem: str) -> None:
    query = filters.parse(text)
    assert query.problems and query.problems[0].startswith(problem)
    assert query.text == text


@pytest.mark.parametrize("text", ["(" * MAX_CHARACTERS, ")" * 5000, "-(" * 5000, "(a OR " * 900])
def test_hostile_texts_are_read(text: str) -> None:
    assert filters.parse(text).problems or ")" in text


def test_a_filter_beside_the_list_keeps_the_groups() -> None:
    either = filters.parse("agent:a OR agent:b")
    assert either.having("state", "state:done") == "(agent:a OR agent:b) state:done"
    both = filters.parse("(agent:a OR agent:b) state:done")
    assert both.having("state", "state:failed") == "(agent:a OR agent:b) state:failed"
    assert both.without("state", "agent") == "agent:a OR agent:b"
    assert both.terms == ["state:done"] and both.one_state == "done"
    assert both.renaming("agent", "b", "c d") == '(agent:a OR agent:"c d") state:done'
    assert both.sought == ()
    assert filters.parse("lxml (numpy OR error:disk)").sought == ("lxml", "numpy", "disk")
    assert quote_words("this OR (that)") == 'this "OR" "(that)"'


def test_a_value_is_completed_among_the_rows_of_its_alternative() -> None:
    text = "(agent: OR state:done) type:code"
    assert read_beside("( OR state:done) type:code", 1) == "type:code"
    assert read_beside("(state:done  OR lxml) type:code", 12) == "type:code state:done"
    assert read_beside("type:code ", 10) == "type:code"
    assert query_syntax.list_terms(text) == ["type:code"]


@pytest.mark.parametrize(
    ("text", "branches"),
    [
        ("agent:a", []),
        ("agent:a OR state:done", ["agent:a", "state:done"]),
        (
            "(agent:a OR state:done) type:t -plan:p",
            ["agent:a type:t -plan:p", "state:done type:t -plan:p"],
        ),
        (
            "(agent:a OR lxml) (plan:p OR numpy)",
            ["agent:a plan:p", "agent:a numpy", "lxml plan:p", "lxml numpy"],
        ),
        ("(agent:a OR (type:t (lxml OR plan:p)))", ["agent:a", "type:t lxml", "type:t plan:p"]),
        ("(-agent:a OR lxml) agent:b", ["agent:b -agent:a", "agent:b lxml"]),
        ("(agent:a OR lxml) agent:b", []),  # both agents at once are no plain query
        ("(older:1h OR a) (older:2h OR b)", []),
        (" ".join(f"(a{n} OR b{n})" for n in range(4)), []),  # sixteen
    ],
)
def test_a_query_is_split_into_plain_ones(text: str, branches: list[str]) -> None:
    found = list_branches(filters.parse(text))
    assert [replace(each, text="") for each in found] == [
        replace(filters.parse(each), text="") for each in branches
    ]


# ---- every list

# terms of each list, each of which finds some of its rows
OF_LISTS = {
    "tasks": ("agent:coder", "state:done", "-state:escalated", "error:disk", "attempts:>0", "Task"),
    "instructions": (
        "agent:coder",
        "state:waiting",
        "urgency:first",
        "Instruction",
        "-agent:codex",
    ),
    "escalations": ("agent:coder", "reason:failed", "error:execution_error", "-agent:codex", "0"),
    "deadletters": ("agent:coder", "disk", "error:route", "attempts:>0", "-agent:coder"),
    "patterns": ("agent:coder", "agent:codex", "error:disk", "route", "first:1d"),
    "plans": ("agent:coder", "plan:02-01", "state:active", "created:1d", "01-01"),
    "sessions": ("agent:coder", "-agent:coder", "state:buffering", "newer:1d", "tracker:todo"),
    "activity": ("agent:coder", "kind:task.completed", "by:people", "since:1h", "-agent:codex"),
    "audit": ("actor:mara", "by:people", "kind:operation", "since:1h", "-actor:jonas"),
    "agents": ("coder", "agent:codex", "state:working", "state:silent", "-agent:coder"),
    "rules": ("agent:coder", "Rule", "holds:yes", "9", "-agent:codex"),
    "permission_rules": ("agent:coder", "verdict:allow", "verdict:deny", "-agent:codex", "npm"),
    "deliveries": ("code:5xx", "channel:coder", "code:2xx", "state:delivered", "-channel:codex"),
    "operations": ("by:mara", "by:jonas", "again", "started:1d", "-by:jonas"),
}


def formulas(terms: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Return terms, and tuples of "and" or "or" with such formulas."""
    return st.recursive(
        st.sampled_from(terms),
        lambda each: st.tuples(st.sampled_from(("and", "or")), each, each),
        max_leaves=6,
    ).filter(lambda formula: isinstance(formula, tuple))


def write(formula: Any) -> str:
    if isinstance(formula, str):
        return formula
    sign, *parts = formula
    return f"({' OR '.join(map(write, parts))})" if sign == "or" else write_both(parts)


def write_both(parts: list[Any]) -> str:
    return " ".join(f"({write(part)})" for part in parts)


def evaluate(formula: Any, find: Callable[[str], frozenset[str]]) -> frozenset[str]:
    if isinstance(formula, str):
        return find(formula)
    sign, left, right = formula
    one, other = evaluate(left, find), evaluate(right, find)
    return one & other if sign == "and" else one | other


def read_export(browser: Client, noun: str, text: str) -> frozenset[str]:
    address = reverse(f"dashboard:{noun}_export", args=["jsonl"])
    response = browser.get(address, {"q": text, "group": "time"})
    assert response.status_code == 200, (noun, text, response.content)
    lines = b"".join(response.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    found = map(json.loads, lines)
    # an export of the audit log is itself a record there
    return frozenset(
        each.get("id") or f"{each['at']} {each['kind']} {each['subject_id']}"
        for each in found
        if each.get("kind") != "audit.exported"
    )


@pytest.mark.django_db
def test_every_list_has_terms_here() -> None:
    assert set(OF_LISTS) == set(LISTS)


@pytest.mark.django_db
@pytest.mark.parametrize("noun", OF_LISTS)
def test_a_query_finds_the_rows_of_its_formula(browser: Client, world: Agent, noun: str) -> None:
    plain: dict[str, frozenset[str]] = {}

    def find(term: str) -> frozenset[str]:
        if term not in plain:
            plain[term] = read_export(browser, noun, term)
        return plain[term]

    assert sum(bool(find(term)) for term in OF_LISTS[noun]) >= 3, plain

    @settings(max_examples=12, deadline=None, database=None)
    @given(formulas(OF_LISTS[noun]))
    def check(formula: Any) -> None:
        text = write(formula)
        if len(text) <= MAX_CHARACTERS:
            assert read_export(browser, noun, text) == evaluate(formula, find), text

    check()
    one, *_, other = OF_LISTS[noun]
    page = browser.get(reverse(f"dashboard:{noun}"), {"q": f"{one} OR {other}", "group": "none"})
    assert f'value="{one} OR {other}"' in html(page)
    if noun in PREFIXES:
        found = read_export(browser, noun, f"{one} OR {other}")
        assert len(found) > PAGE or set(rows(page, PREFIXES[noun][1])) == found


@pytest.mark.django_db
@pytest.mark.parametrize(("noun", "of"), [("tasks", "task"), ("deadletters", "dead")])
def test_the_page_has_the_rows_and_the_counts(
    browser: Client, world: Agent, noun: str, of: str
) -> None:
    for text in ("agent:coder OR disk", "(agent:coder OR route) attempts:>0", "disk OR route"):
        found = read_export(browser, noun, text)
        page = browser.get(reverse(f"dashboard:{noun}"), {"q": text, "group": "time"})
        assert set(rows(page, of)) == found and page.context["total"] == len(found), text


@pytest.mark.django_db
def test_the_pages_of_a_list_follow_each_other(
    browser: Client, agent: Agent, now: datetime, project: Project
) -> None:
    other = make_agent("other")
    for number in range(100):
        enqueued((agent, other)[number % 2], f"Task {number}", now=now, type=f"t{number % 5}")
    text = "(agent:coder type:t0,t1,t2) OR type:t3"
    query = filters.parse(text)
    expected = [
        str(each.pk)
        for each in Task.objects.order_by("-id")
        if (each.agent_id == agent.pk and each.type in ("t0", "t1", "t2")) or each.type == "t3"
    ]
    assert set(filter_tasks(query, project).values_list("pk", flat=True)) == set(
        Task.objects.filter(pk__in=expected).values_list("pk", flat=True)
    )
    for sort in ("", "-created"):
        found: list[str] = []
        before = ""
        for _ in range(5):
            page = browser.get("/tasks/", {"q": text, "sort": sort, "before": before})
            found += rows(page, "task")
            older = page.context["page"].older
            if older is None:
                break
            before = str(older)
        assert found == expected, sort


@pytest.mark.django_db
def test_a_state_in_an_alternative_replaces_the_default_one(
    browser: Client, world: Agent, now: datetime
) -> None:
    letter = DeadLetter.objects.order_by("id").first()
    assert letter
    DeadLetter.objects.filter(pk=letter.pk).update(closed_at=now, closed_as="dismissed")
    text = "state:dismissed OR error:route"
    page = browser.get("/dead-letters/", {"q": text, "group": "time"})
    found = rows(page, "dead")
    assert str(letter.pk) in found and len(found) == 4
    assert page.context["total"] == 4
    assert str(letter.pk) not in rows(
        browser.get("/dead-letters/", {"q": "disk OR error:route", "group": "time"}), "dead"
    )


@pytest.mark.django_db
def test_an_unknown_name_in_an_alternative_is_named(browser: Client, world: Agent) -> None:
    address = reverse("dashboard:tasks_export", args=["csv"])
    refused = browser.get(address, {"q": "agent:codre OR state:done"})
    assert refused.status_code == 400
    assert "Unknown agent “codre”. Did you mean “agent:coder”?" in refused.content.decode()
    page = html(browser.get("/tasks/", {"q": "agent:codre OR state:done"}))
    assert "agent%3Acoder+OR+state%3Adone" in page or "agent:coder OR state:done" in page
