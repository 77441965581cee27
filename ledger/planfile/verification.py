"""Find the command in a text that says how to verify a task (pure).

A command that is found in text is only proposed: no agent runs it until a person confirms it.
"""

import re
import textwrap
from typing import Any

from ledger.planfile.fences import find_fenced_texts

TICKED = re.compile(r"`([^`\n]+)`")
PROGRAM = re.compile(
    r"(?:[A-Z_][A-Z0-9_]* {0,2}=[^\s]* +)*(?:sudo |time |env )?(\.{0,2}/[\w./-]+|[\w.-]+)(?: |$)"
)
PROGRAM_NAMES = """
    ansible-playbook awk bandit bash bats bazel biome black bun bundle bunx cargo cat cd cmake cmp
    composer coverage ctest curl dart deno diff docker dotnet echo elixir eslint find flake8
    flutter gh git gleam go golangci-lint gradle grep helm isort java jest jq just kubectl ls make
    meson mix mkdocs mocha mvn mypy next ng ninja node nox npm npx nx pdm php phpstan phpunit pip
    playwright pnpm poetry pre-commit prettier prisma psql pulumi pylint pyright pytest python
    python3 rails rake rg rspec rubocop ruby ruff rustc sbt sed sh shellcheck sqlite3 stack swift
    task tenfour terraform test tox tsc tsx turbo uv uvx vite vitest vue-tsc wc wget xcodebuild
    yarn yq zig
"""
PROGRAMS = frozenset(PROGRAM_NAMES.split())
# Words that a command does not contain on their own, but a sentence about it does.
PROSE = re.compile(
    r"(?<!\S)(?:a|all|an|and|are|be|both|can|each|every|exits?|fails?|finds?|is|matches|must|no|of|or|"
    r"outputs?|pass(?:es)?|prints?|reports?|returns?|should|shows?|still|succeeds?|sure|that|the|"
    r"then|through|which|with(?:out)?|works?)(?![^\s,.;])"
)
QUOTED = re.compile(r""""[^"]*"|'[^']*'""")
LONGEST_COMMAND = 1000


def describe_verification(text: str) -> dict[str, Any]:
    """Return the text as a verification, with the command that it proposes, if any.

    >>> describe_verification("pytest -q")["proposed_command"]
    'pytest -q'
    >>> describe_verification("All tests pass.")
    {'text': 'All tests pass.'}
    """
    text = textwrap.dedent(text.strip("\n")).strip()
    command = find_command(text)
    proposed = {"proposed_command": command, "source": "proposed"} if command else {}
    return ({"text": text} if text else {}) | proposed


def find_command(text: str) -> str:
    fenced, ticked = find_fenced_texts(text), TICKED.findall(text)
    if len(fenced) == 1:
        return textwrap.dedent(fenced[0]).strip()
    if fenced or "\n" in text:
        return ""
    if len(ticked) == 1:
        return str(ticked[0])
    return text if is_command(text) else ""


def is_command(line: str) -> bool:
    """Return whether a line without markup looks like a command and not like a sentence.

    >>> [is_command(line) for line in ("npm test", "./check.sh --all", "make sure that it works")]
    [True, True, False]
    """
    if len(line) > LONGEST_COMMAND or line.endswith((",", ":", "?", "!")):
        return False
    if line.endswith(".") and not line.endswith((" .", "/.", "..")):
        return False
    program = PROGRAM.match(line)
    if not program:
        return False
    known = program[1] in PROGRAMS or program[1].startswith(("./", "../", "/"))
    return known and not PROSE.search(QUOTED.sub("", line))
