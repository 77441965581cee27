"""The docs list every command and option, and explain how to write an instruction."""

import os
import re

import pytest
from tenfour import cli
from tenfour.commands.completion import read_tree

from tests.client.conftest import Run
from tests.serving import ROOT

REFERENCE = (ROOT / "docs" / "client-reference.md").read_text()
FIRST_INSTRUCTION = (ROOT / "docs" / "first-instruction.md").read_text()


@pytest.mark.parametrize("command", ["send", "enqueue", "ask"])
def test_the_tables_of_options_are_those_of_the_commands(run: Run, command: str) -> None:
    _, _, rest = REFERENCE.partition(f"| option of `{command}` |")
    table = rest.partition("\n\n")[0]
    told = set(re.findall(r"^\|.*?`(--[a-z-]+)|, `(--[a-z-]+)", table, re.MULTILINE))
    known = set(re.findall(r"^  (--[a-z-]+)", run(command, "--help").out, re.MULTILINE))
    assert {first or second for first, second in told} == known


@pytest.mark.parametrize("command", ["claim", "report", "run", "export", "init", "hook"])
def test_every_option_of_the_others_is_in_the_guide(run: Run, command: str) -> None:
    for option in re.findall(r"^  (--[a-z-]+)", run(command, "--help").out, re.MULTILINE):
        assert option in REFERENCE


def test_every_command_is_in_the_guide(run: Run) -> None:
    commands = re.findall(r"^    ([a-z-]+) ", run("--help").out, re.MULTILINE)
    assert commands == [*cli.COMMANDS, *cli.NOUNS]
    for command in cli.COMMANDS:
        assert f"tenfour {command}" in REFERENCE


def render_verbs() -> str:
    """Return the reference's table of verbs, from the table of commands."""
    lines = ["| Command | What it does | Scope |", "|---|---|---|"]
    for node in read_tree():
        for verb in node.verbs:
            known = [name for option in verb.options for name in option.names]
            options = [f"`{name}`" for name in known if name.startswith("--") and name != "--help"]
            does = " ".join([verb.help, ", ".join(options)]).rstrip()
            command = f"tenfour {node.name} {verb.name} {verb.arguments}".rstrip()
            lines.append(f"| `{command}` | {does} | `{verb.scope}` |")
    return "\n".join(lines)


def test_the_table_of_verbs_is_that_of_the_commands() -> None:
    """UPDATE_REFERENCE=1 writes the table."""
    start, end = "<!-- nouns -->\n", "\n<!-- /nouns -->\n"
    table = f"{start}\n{render_verbs()}\n{end}"
    if os.environ.get("UPDATE_REFERENCE"):
        before, after = REFERENCE.split(start)[0], REFERENCE.split(end.lstrip())[1]
        (ROOT / "docs" / "client-reference.md").write_text(before + table + after)
    else:
        assert table in REFERENCE


def test_the_rule_for_instructions_has_good_and_bad_examples() -> None:
    """S0.32"""
    assert (
        "Check if the OpenSpec CLI is available" in FIRST_INSTRUCTION
        and "Increment the counter" in FIRST_INSTRUCTION
    )


def test_what_is_not_promised_is_said_with_the_rejected_alternatives() -> None:
    """S0.38"""
    _, _, rest = FIRST_INSTRUCTION.partition("## What is not promised")
    for words in ("No guaranteed delivery", "timeout", "Polling for status", "An id in the text"):
        assert words in rest


def test_the_command_alone_prints_help(run: Run) -> None:
    alone = run()
    assert (alone.status, alone.out) == (0, run("--help").out) and not alone.err


def test_an_unknown_command_or_option_names_the_nearest(run: Run) -> None:
    unknown = run("snd", "coder", "Look")
    assert unknown.status == 2 and "Did you mean `tenfour send`?" in unknown.err
    assert run("--quick").status == 2
