"""Stream the rows of a list as CSV or JSON lines, in constant memory."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, StreamingHttpResponse

CHUNK = 500  # rows that are read and sent at once
MEDIA = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson; charset=utf-8"}
# what a spreadsheet would run as a formula
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class Line:
    """A file that keeps only what was written last."""

    text = ""

    def write(self, text: str) -> int:
        self.text = text
        return len(text)


def stream_rows(
    rows: QuerySet[Any], columns: Mapping[str, str], *, form: str, name: str
) -> StreamingHttpResponse:
    """Answer with a file of the rows; `columns` maps the names in the file to the model's.

    Raise Http404 for an unknown form.
    """
    if form not in MEDIA:
        raise Http404(f"There is no export as “{form[:20]}”. Use csv or jsonl.")
    values = rows.values_list(*columns.values()).iterator(chunk_size=CHUNK)
    write = write_csv if form == "csv" else write_json_lines
    response = StreamingHttpResponse(write(list(columns), values), content_type=MEDIA[form])
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return response


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    line = Line()
    writer = csv.writer(line)
    writer.writerow(columns)
    lines = [line.text]
    for row in rows:
        writer.writerow([guard(as_text(value)) for value in row])
        lines.append(line.text)
        if len(lines) >= CHUNK:
            yield "".join(lines)
            lines = []
    yield "".join(lines)


def write_json_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    lines: list[str] = []
    for row in rows:
        values = {name: as_json(value) for name, value in zip(columns, row, strict=True)}
        lines.append(json.dumps(values, ensure_ascii=False) + "\n")
        if len(lines) >= CHUNK:
            yield "".join(lines)
            lines = []
    yield "".join(lines)


def as_text(value: Any) -> str:
    return "" if value is None else str(as_json(value))


def as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return value if value is None or isinstance(value, int | float | bool) else str(value)


def guard(text: str) -> str:
    """Return a text that a spreadsheet doesn't run as a formula.

    >>> guard("=1+1"), guard("plain")
    ("'=1+1", 'plain')
    """
    return f"'{text}" if text.startswith(FORMULA) else text
