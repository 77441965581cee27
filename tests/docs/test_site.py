"""The documentation as a site: every page is listed, and the drawing shows the code."""

import re

import yaml

from docs_site.architecture import DRAWING, draw
from docs_site.hooks import OUTSIDE
from tests.serving import ROOT

INDEX = (ROOT / "docs" / "index.md").read_text()
SITE = yaml.safe_load((ROOT / "docs_site" / "mkdocs.yml").read_text())


def list_pages(entry: object) -> list[str]:
    """Return the pages of a part of the navigation, from the top down."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    assert not isinstance(parts, str)
    return [page for part in parts for page in list_pages(part)]  # type: ignore[attr-defined]


def test_index_and_site_list_every_page_in_the_same_part() -> None:
    written = {path.name for path in (ROOT / "docs").glob("*.md")} | {*OUTSIDE.values()}
    on_site = list_pages(SITE["nav"])
    assert sorted(on_site) == sorted(written)
    for part in SITE["nav"][1:]:
        [(title, pages)] = part.items()
        section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", INDEX, re.M | re.S)
        assert section, title
        linked = re.findall(r"\]\(([^)]+)\)", section[1])
        names = [OUTSIDE.get(link.removeprefix("../"), link) for link in linked]
        assert [name for name in names if name != "openapi.json"] == list_pages(pages)


def test_drawing_shows_the_modules_as_they_import() -> None:
    assert DRAWING.read_text() == draw(), "`make docs` draws docs/architecture.svg again"
