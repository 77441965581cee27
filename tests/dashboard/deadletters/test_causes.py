"""Dead letters grouped by cause."""

from datetime import datetime

import pytest

from dashboard.deadletters.causes import add_counts, find_cause, group_by_cause
from ledger.models import Agent
from tests.dashboard.worked import buried


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            "ModuleNotFoundError: No module named 'lxml'",
            "ModuleNotFoundError: No module named ‹text›",
        ),
        ("timeout after 300 s: npx test", "timeout after ‹amount›: npx test"),
        ("cannot open /var/lib/x.db: 13", "cannot open ‹path›: ‹number›"),
        ("task 01a1fe8a-1bbf-798b-b797-e0023d4c4b40 is gone", "task ‹id› is gone"),
        ("Traceback (most recent):\n  File 'x'\nValueError: 7", "ValueError: ‹number›"),
        ("\n\n", "no error text"),
        ("x" * 500, "x" * 159 + "…"),
    ],
)
def test_cause_has_marks_for_numbers_names_and_paths(error: str, cause: str) -> None:
    assert find_cause(error) == cause


@pytest.mark.django_db
def test_largest_group_comes_first(agent: Agent, now: datetime) -> None:
    letters = [buried(agent=agent, now=now, error=error) for error in ("a 1", "b", "a 2")]
    for letter in letters:
        letter.failure_type, letter.waiting = "timeout", 0  # type: ignore[attr-defined]
        letter.cause_pattern = None  # type: ignore[attr-defined]
    groups = add_counts(group_by_cause(letters[::-1]), {})
    assert [(group.cause, len(group.letters)) for group in groups] == [("a ‹number›", 2), ("b", 1)]
