"""Stream the rows of a list as CSV or JSON lines, in constant memory.

A page that exports its list has a view that hands its filtered rows to `export_list`. A list whose
rows are more than columns of a table hands records to `export_records`.

What fails before the first byte is sent is answered like any page: by the primary if a replica was
read, or with an error. Later, a last line says that the file is incomplete.
"""

import csv
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from itertools import chain
from typing import Any

from django.db import connections, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse

from ledger.database.databases import REPLICA, source

logger = logging.getLogger(__name__)

CHUNK = 500  # rows that are read and sent at once
# The web server reads more than this before it sends the first byte: see
# `config.requests.web_threads`.
UNSENT = 4 * 1024 * 1024
INCOMPLETE = "This file is incomplete: an error ended the export. Export the list again."
MEDIA = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson; charset=utf-8"}
# the beginnings of texts that a spreadsheet would run as a formula
FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # the wide signs count in Japan and China


class Line:
    """A file that holds only the last written line."""

    text = ""

    def write(self, text: str) -> int:
        self.text = text
        return len(text)


def export_list(
    rows: QuerySet[Any],
    columns: Mapping[str, str],
    *,
    form: str,
    name: str,
    problems: Sequence[str] = (),
) -> HttpResponseBase:
    """Answer with a file of the rows; raise Http404 for an unknown form."""
    # `columns` maps the names in the file to the model's.
    return export_records(
        read_values(rows, columns.values()), list(columns), form=form, name=name, problems=problems
    )


def export_records(
    records: Iterable[Sequence[Any]],
    names: Sequence[str],
    *,
    form: str,
    name: str,
    problems: Sequence[str] = (),
) -> HttpResponseBase:
    """Answer with a file of records, whose values are in the order of `names`."""
    if form not in MEDIA:
        raise Http404(f"There is no export as “{form[:20]}”. Use csv or jsonl.")
    # A filter that is not understood exports nothing.
    if problems:
        text = f"Nothing was exported. {' '.join(problems)}"
        return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
    is_csv = form == "csv"
    write = write_csv if is_csv else write_json_lines
    chunks: Iterator[bytes] = (text.encode() for text in write(names, records))
    if source.get() == REPLICA:
        # An error here goes to `replica.read_page`. An open cursor on the primary would block
        # other statements of this request there.
        chunks = read_ahead(chunks)
    last_line = f"{INCOMPLETE}\r\n" if is_csv else json.dumps({"error": INCOMPLETE}) + "\n"
    response = StreamingHttpResponse(
        mark_incomplete(chunks, last_line.encode()), content_type=MEDIA[form]
    )
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return response


def read_ahead(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Read what precedes the first sent byte, and return an iterator over all chunks."""
    unsent, size = [], 0
    for chunk in chunks:
        unsent.append(chunk)
        size += len(chunk)
        if size > UNSENT:
            break
    return chain(unsent, chunks)


def mark_incomplete(chunks: Iterator[bytes], last_line: bytes) -> Iterator[bytes]:
    """Yield the chunks, and the last line if an error ends them after the first bytes were sent."""
    size = 0
    try:
        for chunk in chunks:
            size += len(chunk)
            yield chunk
    except Exception:
        if size <= UNSENT:
            raise
        logger.exception("an export ended in its middle")
        # The web server can only end the response now, as it ends a complete one.
        yield last_line


def read_values(rows: QuerySet[Any], columns: Iterable[str]) -> Iterator[Sequence[Any]]:
    values, alias = rows.values_list(*columns), rows.db
    # A transaction pooler keeps a cursor only as long as a transaction. The first connection finds
    # out whether there is one.
    connections[alias].ensure_connection()
    is_pooled = bool(connections[alias].settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"))
    with transaction.atomic(using=alias) if is_pooled else nullcontext():
        yield from values._iterator(use_chunked_fetch=True, chunk_size=CHUNK)  # type: ignore[attr-defined]


def write_csv(names: Sequence[str], records: Iterable[Sequence[Any]]) -> Iterator[str]:
    line = Line()
    writer = csv.writer(line)
    writer.writerow(names)
    lines = [line.text]
    for record in records:
        writer.writerow([guard(as_text(value)) for value in record])
        lines.append(line.text)
        if len(lines) >= CHUNK:
            yield "".join(lines)
            lines = []
    yield "".join(lines)


def write_json_lines(names: Sequence[str], records: Iterable[Sequence[Any]]) -> Iterator[str]:
    lines: list[str] = []
    for record in records:
        values = {name: as_json(value) for name, value in zip(names, record, strict=True)}
        lines.append(json.dumps(values, ensure_ascii=False) + "\n")
        if len(lines) >= CHUNK:
            yield "".join(lines)
            lines = []
    yield "".join(lines)


def as_text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(as_json(value))


def as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return value if isinstance(value, bool | int | float | dict | list | None) else str(value)


def guard(text: str) -> str:
    """Return a text that a spreadsheet doesn't run as a formula.

    >>> guard("=1+1"), guard("plain")
    ("'=1+1", 'plain')
    """
    return f"'{text}" if text.startswith(FORMULA) else text
