"""The hints that `tenfour` prints: they name commands, and no calls of the API."""

import re
from collections.abc import Iterator

import pytest
from tenfour.commands.terminal import HINTS

import config.urls  # noqa: F401  # loads all refusals
from ledger.errors import Refusal

OF_HTTP = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE)\b|/v1\b|\b[Hh]eader")
# The client always sends what these ask for.
NEVER = {"if_match_required", "unsupported_media_type"}


def refusals(kind: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    for each in kind.__subclasses__():
        yield each
        yield from refusals(each)


@pytest.mark.parametrize("kind", sorted(refusals(), key=str), ids=lambda kind: kind.__name__)
def test_a_hint_names_no_call_of_the_api(kind: type[Refusal]) -> None:
    """AGT-31."""
    if kind.code not in NEVER:
        assert not OF_HTTP.search(HINTS.get(kind.code, kind.hint))
