"""The archives of a day with many rows are written and read in little memory."""

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest
from django.core.management import call_command

from retries.retention import archives
from retries.retention.archives import Record, open_writer

DAY = date(2026, 11, 1)
BATCHES, NAMES = 300, 1000
MOST_BYTES = 2 * 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an archive with 300,000 names in its index, which take 30 MB in memory."""
    folder = tmp_path / "archive"
    with open_writer(folder, DAY, archives.JOURNAL) as writer:
        for number in range(BATCHES):
            names = tuple(f"{number:08}-0000-7000-8000-{name:012}" for name in range(NAMES))
            writer.append("event", [Record(json.dumps({"names": [names[0]]}), names)])
    return folder


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def test_a_day_with_many_names_takes_little_memory(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = archives.list_files(folder)
    with little_memory(), open_writer(folder, DAY, archives.JOURNAL) as writer:
        end = writer.open("event").end
    assert end == path.stat().st_size
    with little_memory():
        assert archives.verify(path) == []
    with little_memory():
        call_command("archive", "--folder", str(folder), "list")
    assert f"{path.name}: {BATCHES} records" in capsys.readouterr().out
    with little_memory():
        name = "00000299-0000-7000-8000-000000000000"
        assert list(archives.find_records(folder, name)) == [{"names": [name]}]
