"""Every path in docs/names.md can be imported, and ends in the name that is looked for."""

import re
from importlib import import_module

import pytest
from django.conf import settings

ROWS = re.findall(
    r"^\| `(\w+)` \| `([\w.]+)`(?:, with (.*?))?",
    (settings.BASE_DIR / "docs" / "names.md").read_text(),
    re.M,
)


@pytest.mark.parametrize(("name", "path"), [row[:2] for row in ROWS])
def test_a_name_is_where_it_is_said_to_be(name: str, path: str) -> None:
    module, _, last = path.rpartition(".")
    assert last == name
    assert getattr(import_module(module), name)


def test_no_row_is_passed_over() -> None:
    text = (settings.BASE_DIR / "docs" / "names.md").read_text()
    assert len(ROWS) == text.count("\n| `") > 20
