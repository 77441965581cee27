"""The fenced commands of README and docs, as one script for each page."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.serving import ROOT

# A fence may stand behind a comment that says how to treat it:
# "runs until interrupted: TEXT" waits for TEXT in the output, "file: NAME" writes the block to NAME,
# "needs: PROGRAM" is not run: the program manages the machine, and the tests must not.
FENCE = re.compile(
    r"(?:^<!-- (?P<how>runs until interrupted|file|needs): (?P<what>.+?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
# What is shown and not run: output, syntax, other formats.
SHOWN = {"", "diff", "xml", "mermaid", "markdown", "json", "toml", "yaml", "sql"}
# Commands that run until Ctrl-C, with the text that shows that they work.
ENDLESS = {"make demo": "Sign in at"}
# Programs whose commands are shown and not run.
OUTSIDE = {"docker", "kubectl", "systemctl"}
UNTIL = ROOT / "tests" / "docs" / "until.py"


@dataclass(frozen=True)
class Block:
    """A fenced block, with the comment in front of it."""

    language: str
    text: str
    how: str
    what: str


def pages() -> list[Path]:
    """Return README and every page of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    return [
        Block(found["language"], found["text"], found["how"] or "", found["what"] or "")
        for found in FENCE.finditer(page.read_text())
    ]


def script(page: Path, *, url: str) -> str:
    """Return the page's commands as one bash script; empty if the page has none.

    The one thing that differs from the page is the server's address: its port is taken on a
    machine where another Tenfour runs.
    """
    parts = [part for block in blocks(page) for part in commands(block)]
    return "\n".join(parts).replace("http://127.0.0.1:8000", url)


def commands(block: Block) -> Iterator[str]:
    if block.how == "file":
        yield f"cat > {block.what} <<'END_OF_FILE'\n{block.text}END_OF_FILE"
    elif block.how == "runs until interrupted":
        yield until(block.text, block.what)
    elif block.how == "needs":
        assert block.what in OUTSIDE and block.what in block.text, block
    elif block.language == "python":
        yield f"python3 - <<'END_OF_PYTHON'\n{block.text}END_OF_PYTHON"
    elif block.language == "sh":
        yield "\n".join(map(in_project, block.text.splitlines()))
    else:
        assert block.language in SHOWN, f"an unknown language: {block.language}"


def in_project(line: str) -> str:
    """Return a line as it is run: make runs in the project's folder, and `demo` is interrupted."""
    command = line.partition("#")[0].strip()
    if command in ENDLESS:
        return until(f'make -C "$PROJECT" {command.removeprefix("make ")}\n', ENDLESS[command])
    return re.sub(r"^make ", 'make -C "$PROJECT" ', line)


def until(text: str, expected: str) -> str:
    return f"python3 '{UNTIL}' '{expected}' <<'END_OF_COMMAND'\n{text}END_OF_COMMAND"
