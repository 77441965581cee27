"""docs/client.md says what the command can do, and what an instruction must be like."""

import re

from tests.client.conftest import Run
from tests.serving import ROOT

GUIDE = (ROOT / "docs" / "client.md").read_text()


def test_the_table_of_options_is_that_of_the_command(run: Run) -> None:
    told = set(re.findall(r"^\| `(--[a-z-]+)", GUIDE, re.MULTILINE))
    known = set(re.findall(r"^  (--[a-z-]+)", run("send", "--help").out, re.MULTILINE))
    assert told == known


def test_every_command_is_in_the_guide(run: Run) -> None:
    commands = re.findall(r"^    ([a-z]+) ", run("--help").out, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        assert f"heed {command}" in GUIDE


def test_the_rule_for_instructions_has_good_and_bad_examples() -> None:
    assert "Check if the OpenSpec CLI is available" in GUIDE and "Increment the counter" in GUIDE


def test_what_is_not_promised_is_said_with_the_rejected_alternatives() -> None:
    _, _, rest = GUIDE.partition("## What is not promised")
    for words in ("No guaranteed delivery", "timeout", "status again", "An id in the text"):
        assert words in rest
