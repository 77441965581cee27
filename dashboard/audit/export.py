"""Write the audit log as CSV or JSON lines, a record at a time."""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from dashboard.audit.queries import AuditRecord

COLUMNS = (
    *("at", "who", "did", "what", "reason", "source", "kind"),
    *("subject_type", "subject_id", "from_state", "to_state", "request_id"),
)
# a spreadsheet would run a cell that begins so as a formula
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Echo:
    """A file that returns what is written to it."""

    def write(self, text: str) -> str:
        return text


def write_csv(records: Iterable[AuditRecord]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow(COLUMNS)
    for record in records:
        yield writer.writerow([guard(text) for text in cells_of(record).values()])


def write_json_lines(records: Iterable[AuditRecord]) -> Iterator[str]:
    for record in records:
        yield json.dumps(cells_of(record), ensure_ascii=False) + "\n"


def cells_of(record: AuditRecord) -> dict[str, str]:
    values = asdict(record) | {"at": record.at.isoformat()}
    return {name: values[name] for name in COLUMNS}


def guard(text: str) -> str:
    """Return the text as a cell that no spreadsheet runs.

    >>> guard("=1+1"), guard("mara")
    ("'=1+1", 'mara')
    """
    return f"'{text}" if text.startswith(FORMULA) else text
