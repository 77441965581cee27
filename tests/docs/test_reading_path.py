"""The reading path of the core, in `docs/architecture.md`."""

import re

from tests.serving import ROOT

MOST_FILES, MOST_LINES = 45, 7_850


def test_the_core_is_read_in_few_files() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    part = re.search(r"^## Read the core in this order\n(.*?)^## ", text, re.M | re.S)
    assert part
    files = re.findall(r"`([a-z_/]+\.py)`", part[1])
    lines = sum(len((ROOT / name).read_text().splitlines()) for name in files)
    assert len(files) == len(set(files)) <= MOST_FILES
    assert 0 < lines <= MOST_LINES
