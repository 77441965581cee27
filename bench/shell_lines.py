"""Measure how well the commands of shell lines are read, on lines that were labeled by hand.

    .venv/bin/python -m bench.shell_lines

`shell_lines.txt` has one block for each line, of the kinds that build files, documentation and
coding agents contain. `$` and `>` begin the line itself. Below stand the commands that it runs, with
`0` where an exit code of 0 of the whole line proves that the command ended with 0, else with `?`;
`↵` is a line break.
Branches of `if` and `case` need not run and are no commands.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retries.agent_hooks.shell_lines import read_commands

LINES = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class Labeled:
    """A shell line and its commands as a person reads them; True where a command's 0 is known."""

    line: str
    commands: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Figures:
    """The results for the labeled commands, and for the exit codes that are known."""

    lines: int
    precision: float
    recall: float
    code_precision: float
    code_recall: float
    # the lines of which something was read wrongly, or not read
    wrong: tuple[str, ...]


def read_labeled(text: str) -> Iterator[Labeled]:
    for block in text.strip().split("\n\n"):
        marked = [(line[:1], line[2:]) for line in block.splitlines()]
        line = "\n".join(rest for mark, rest in marked if mark in "$>")
        found = [(rest.replace("↵", "\n"), mark == "0") for mark, rest in marked if mark in "0?"]
        yield Labeled(line, tuple(found))


def measure(labeled: list[Labeled]) -> Figures:
    """Return precision and recall over all commands of these lines."""
    commands, codes, wrong = Tally(), Tally(), []
    for each in labeled:
        found = [(one.line, one.exit_code == 0) for one in read_commands(each.line, 0)]
        codes.add([one for one in found if one[1]], [one for one in each.commands if one[1]])
        if not commands.add([line for line, _ in found], [line for line, _ in each.commands]):
            wrong.append(each.line)
    return Figures(len(labeled), *commands.shares(), *codes.shares(), tuple(wrong))


@dataclass
class Tally:
    """The number found, the number that exists, and the number in both."""

    found: int = 0
    labeled: int = 0
    right: int = 0

    def add(self, found: Iterable[Any], labeled: Iterable[Any]) -> bool:
        """Count the commands of one line; return whether they are the same."""
        ours, theirs = Counter(found), Counter(labeled)
        self.found += ours.total()
        self.labeled += theirs.total()
        self.right += (ours & theirs).total()
        return ours == theirs

    def shares(self) -> tuple[float, float]:
        """Return precision and recall."""
        return self.right / self.found, self.right / self.labeled


def main() -> None:
    found = measure([*read_labeled(LINES.read_text())])
    print(f"{found.lines} lines")
    print(f"commands: precision {found.precision:.4f}, recall {found.recall:.4f}")
    print(f"exit codes: precision {found.code_precision:.4f}, recall {found.code_recall:.4f}")
    for line in found.wrong:
        print(f"not read as labeled: {line!r}")


if __name__ == "__main__":
    main()
