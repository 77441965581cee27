"""The hot statements, whole: `statements/*.sql` show what PostgreSQL runs.

After a change, run this module with UPDATE_STATEMENTS=1 and review the difference.
"""

import os
from pathlib import Path
from textwrap import wrap

import pytest

from ledger import instructions, journal, signal_matching
from ledger.tasks import enqueuing
from ledger.tokens import Bearer
from retries import reminders
from retries.attempts import fast_path, heartbeats
from retries.claiming import statements as claim_statements
from retries.journal_readers import positions as stream_position

FOLDER = Path(__file__).with_name("statements")
STATEMENTS = {
    "send": instructions.SEND,
    "pull": instructions.PULL[Bearer],
    "acknowledge": instructions.ACKNOWLEDGE[Bearer],
    "signal": signal_matching.SIGNAL[Bearer],
    "idle_check": reminders.REMIND,
    "enqueue": enqueuing.ENQUEUE,
    "enqueue_alike": enqueuing.ENQUEUE_ALIKE,
    "claim": claim_statements.CLAIM[Bearer, claim_statements.Pick.NEXT, True],
    "done": fast_path.DONE[Bearer],
    "heartbeat": heartbeats.HEARTBEAT[Bearer],
    "stream": journal.STREAM,
    "stream_head": journal.HEAD,
    "stream_batch": stream_position.LAST,
}


def fold(statement: str) -> str:
    """Return a statement with its long lines wrapped, for people who read it."""
    lines = []
    for line in statement.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += wrap(line, 100, subsequent_indent=f"{indent}    ", break_long_words=False)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_hot_statement_is_as_recorded(name: str) -> None:
    path, statement = FOLDER / f"{name}.sql", fold(STATEMENTS[name])
    if os.environ.get("UPDATE_STATEMENTS"):
        path.write_text(statement)
    assert statement == path.read_text()


def test_every_recorded_statement_is_compared() -> None:
    assert {path.stem for path in FOLDER.glob("*.sql")} == set(STATEMENTS)
