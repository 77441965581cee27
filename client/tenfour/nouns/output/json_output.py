"""JSON for scripts: whole rows, some of their fields, or what the program jq makes of them."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenfour.commands.display import clean
from tenfour.commands.terminal import pretty, say, wrong_usage
from tenfour.http.problems import TenfourError
from tenfour.nouns.noun import Parser
from tenfour.nouns.output.columns import Row, value_of


@dataclass(frozen=True)
class JsonOutput:
    """The values of `--json`, `--fields` and `--jq`; without any of them, the value is None."""

    fields: tuple[str, ...] = ()
    jq: str = ""

    @property
    def is_whole(self) -> bool:
        return not self.fields and not self.jq

    def print(self, found: Any) -> None:
        """Print one row or a list of rows."""
        if self.fields:
            found = self.select(found) if isinstance(found, dict) else [*map(self.select, found)]
        say(clean(run_jq(self.jq, found)) if self.jq else pretty(found))

    def select(self, row: Row) -> dict[str, Any]:
        """Return the chosen fields of a row; raises WrongUsage for one that it does not have."""
        for path in self.fields:
            if path.partition(".")[0] not in row:
                hint = f"The fields are: {', '.join(row)}."
                raise wrong_usage(f"There is no field {path}.", hint)
        return {path: value_of(row, path) for path in self.fields}


class ChooseJson(argparse.Action):
    """Collects the three options in one value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        found = namespace.json or JsonOutput()
        if option_string == "--fields":
            found = replace(found, fields=tuple(name.strip() for name in values.split(",")))
        elif option_string == "--jq":
            found = replace(found, jq=values)
        namespace.json = found


def add_json_output(parser: Parser, about: str) -> None:
    """Add the options of a verb that lists or shows rows."""
    parser.add_argument("--json", action=ChooseJson, nargs=0, help=about)
    choices: Sequence[tuple[str, str, str]] = (
        ("--fields", "NAMES", "print only these fields as JSON, as in id,state,breaker.state"),
        ("--jq", "FILTER", "filter the JSON with the program jq, and print strings without quotes"),
    )
    for option, metavar, text in choices:
        parser.add_argument(option, action=ChooseJson, dest="json", metavar=metavar, help=text)


def run_jq(filter: str, value: Any) -> str:
    """Return what jq prints for a value; raises TenfourError where it can't."""
    try:
        ended = subprocess.run(
            ["jq", "-r", filter],
            input=json.dumps(value),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    except FileNotFoundError as error:
        hint = "Install it, or use --fields or --json."
        raise TenfourError("--jq needs the program jq.", code="jq_missing", hint=hint) from error
    if ended.returncode:
        raise wrong_usage(ended.stderr.strip(), "The filter is for the program jq.")
    return ended.stdout.rstrip("\n")
