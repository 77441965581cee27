"""What each declared list promises: its keys filter, its columns sort, and its states count."""

from typing import Any

import pytest
from django.test import Client
from django.urls import resolve, reverse

from dashboard.completion import lists
from dashboard.completion.sources import EXAMPLES
from dashboard.listing import Listing
from dashboard.lists.query_box import Names
from dashboard.memory_listing import MemoryListing
from dashboard.saved_views.strip import BUILT_IN
from ledger.models import Agent, Project
from tests.dashboard.seen import html

pytestmark = pytest.mark.django_db

LISTINGS: list[Listing[Any]] = [each for each in vars(lists).values() if isinstance(each, Listing)]
EACH = pytest.mark.parametrize("listing", LISTINGS, ids=lambda each: each.name)


def test_the_regular_lists_are_declared() -> None:
    assert {each.name for each in LISTINGS} == {
        *("agents", "operations", "deliveries", "patterns", "plans", "rules"),
        *("deadletters", "instructions", "sessions", "permission_rules"),
    }


@EACH
def test_a_list_has_its_page_export_views_and_completion(listing: Listing[Any]) -> None:
    assert guards(reverse(f"dashboard:{listing.name}"), listing.index)
    assert guards(reverse(listing.export_page, args=["csv"]), listing.export)
    assert lists.LISTS[listing.name].keys is listing.keys
    assert listing.name in BUILT_IN


def guards(address: str, view: Any) -> bool:
    """Return whether an address is answered by this view, behind its guards."""
    found: Any = resolve(address).func
    while found is not view and hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    return found is view


@EACH
def test_each_key_narrows_the_list(listing: Listing[Any], project: Project) -> None:
    """A key without a condition would be understood, and find every row."""
    for key, kind in listing.keys.items():
        choices = kind.choices if isinstance(kind, Names) else EXAMPLES[key]
        any_row, query = (
            listing.parse(""),
            listing.parse(f"{key}:{choices[-1] if choices else 'x'}"),
        )
        assert not query.problems and query != any_row, key
        if not isinstance(listing, MemoryListing):
            every, found = (listing.find(each, project) for each in (any_row, query))
            assert str(found.query) != str(every.query), key


@EACH
def test_a_minus_sorts_from_the_largest_on_every_list(
    browser: Client, agent: Agent, listing: Listing[Any]
) -> None:
    """And a click on a heading asks for the order that the list has not."""
    path = reverse(f"dashboard:{listing.name}")
    for name in listing.sorts:
        for sort, direction in ((name, "ascending"), (f"-{name}", "descending")):
            page = browser.get(path, {"sort": sort, "group": "time"})
            assert page.status_code == 200
            columns = page.context["columns"]
            shown = {each.name: each.heading.direction for each in columns if each.heading}
            assert shown[name] == direction, sort
            assert [each for each in shown.values() if each] == [direction]


@EACH
def test_the_buttons_are_the_states_with_their_counts(
    browser: Client, project: Project, listing: Listing[Any]
) -> None:
    page = browser.get(reverse(f"dashboard:{listing.name}"))
    buttons = page.context["states"]
    labels = [state.label for state in listing.states.values() if state.label not in ("", "All")]
    assert [each.label for each in buttons if each.label != "All"][: len(labels)] == labels
    assert [each.current for each in buttons].count(True) == 1
    assert all(each.count == 0 for each in buttons)
    assert 'id="none"' in html(page)
