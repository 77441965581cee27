"""What the command `archive` answers to odd names, folders and damaged files."""

import gzip
import hashlib
import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from retries.retention import archives
from retries.retention.archives import DamagedArchive, Record, open_writer


def run(folder: Path, *arguments: str) -> str:
    """Return the error that the command ends with."""
    with pytest.raises(CommandError) as raised:
        call_command("archive", "--folder", str(folder), *arguments)
    return str(raised.value)


def test_odd_names_and_damaged_files_are_clear_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "archive"
    assert "There are no archives" in run(folder, "show", "03-01:task-3")
    with open_writer(folder, date(2026, 11, 1), archives.ROWS) as writer:
        writer.append("tasks", [Record('{"names": ["03-01:task-3"]}', ("03-01:task-3",))])
    for name in ("", "*", "../../etc/passwd", "\0", "\udcff", "03-01:task-", "x" * 10_000):
        error = run(folder, "show", name)
        assert "No record" in error and error.encode(), name
    call_command("archive", "--folder", str(folder), "show", "03-01:task-3")
    assert "03-01:task-3" in capsys.readouterr().out
    data, index = folder / "tasks-2026-11-01.jsonl.gz", folder / "tasks-2026-11-01.index"
    whole = data.read_bytes()
    data.write_bytes(whole[:-5])
    error = run(folder, "show", "03-01:task-3")
    assert "tasks-2026-11-01.jsonl.gz" in error and "another SHA-256" in error
    assert "archive verify" in error
    data.write_bytes(whole)
    for line in (b"{\n", b"[]\n", b'{"offset": 0}\n', b"\xff\n"):
        index.write_bytes(line)
        for verb in (("list",), ("show", "03-01:task-3")):
            assert "tasks-2026-11-01.index can't be read" in run(folder, *verb), line


REF = "03-01:task-3"
DAY = date(2026, 11, 1)
NESTED = b"[" * 100_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an archive with two batches of one record each."""
    folder = tmp_path / "archive"
    with open_writer(folder, DAY, archives.ROWS) as writer:
        for number in range(2):
            text = json.dumps({"names": [REF], "number": number})
            writer.append("task", [Record(text, (REF,))])
    return folder


def files_of(folder: Path) -> tuple[Path, Path]:
    return folder / "task-2026-11-01.jsonl.gz", folder / "task-2026-11-01.index"


def write_batch(folder: Path, packed: bytes) -> None:
    """Replace the archive by one batch, whose digest is right."""
    data, index = files_of(folder)
    data.write_bytes(packed)
    digest = hashlib.sha256(packed).hexdigest()
    line = {"offset": 0, "size": len(packed), "records": 1, "sha256": digest, "names": [REF]}
    index.write_text(json.dumps(line) + "\n")


@pytest.mark.parametrize(
    "fields",
    [
        *({"offset": each} for each in ("x", None, -1, 10**30, 0.5, True)),
        *({"size": each} for each in ("x", None, -1, 10**30)),
        *({"records": each} for each in ("x", None, -1)),
        *({"names": each} for each in (None, 5, REF)),
        {"more": 1},
    ],
)
def test_an_index_with_odd_values_is_a_clear_error(folder: Path, fields: dict[str, Any]) -> None:
    _, index = files_of(folder)
    line = json.loads(index.read_text().partition("\n")[0])
    index.write_text(json.dumps(line | fields) + "\n")
    for verb in (("list",), ("show", REF)):
        assert "task-2026-11-01.index can't be read" in run(folder, *verb)


@pytest.mark.parametrize("fields", [{"sha256": None}, {"size": 2**47}, {"size": 5}, {"records": 7}])
def test_a_batch_that_its_index_describes_wrong_is_a_clear_error(
    folder: Path, fields: dict[str, Any]
) -> None:
    _, index = files_of(folder)
    line = json.loads(index.read_text().partition("\n")[0])
    index.write_text(json.dumps(line | fields) + "\n")
    assert "task-2026-11-01.jsonl.gz: the " in run(folder, "show", REF)


# contents of a batch that its digest is right for
NO_RECORDS = {
    "no gzip": b"no gzip",
    "cut short": gzip.compress(b'{"names": []}\n')[:-9],
    "no deflate": gzip.compress(b"x" * 50)[:12] + b"\xff" * 20,
    "a list": gzip.compress(b"[]\n"),
    "a number": gzip.compress(b"5\n"),
    "no names": gzip.compress(b"{}\n"),
    "names that are no list": gzip.compress(b'{"names": 5}\n'),
    "no text": gzip.compress(b"\xff\n"),
    "deeply nested": gzip.compress(NESTED + b"\n"),
}


@pytest.mark.parametrize("what", NO_RECORDS)
def test_a_batch_that_holds_no_record_is_a_clear_error(
    folder: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_batch(folder, NO_RECORDS[what])
    assert "task-2026-11-01.jsonl.gz" in run(folder, "show", REF)
    with pytest.raises(SystemExit):
        call_command("archive", "--folder", str(folder), "verify")
    assert "task-2026-11-01.jsonl.gz" in capsys.readouterr().out


def test_a_batch_that_unpacks_to_too_much_is_a_clear_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading stops at the first line that is too long, and after the records of the index."""
    record = json.dumps({"names": [REF]}).encode() + b"\n"
    write_batch(folder, gzip.compress(record * 1_000_000))
    assert "the batch at 0 has more than 1 records" in run(folder, "show", REF)
    assert len(capsys.readouterr().out.splitlines()) == 1
    monkeypatch.setattr(archives, "LONGEST_LINE", 1_000)
    text = json.dumps({"names": [REF], "text": "x" * 1_000}).encode()
    for content in (text + b"\n", text):
        write_batch(folder, gzip.compress(content))
        assert "a line has more than 1,000 bytes" in run(folder, "show", REF)
    index = files_of(folder)[1]
    index.write_bytes(text)
    for verb in (("list",), ("show", REF)):
        assert "task-2026-11-01.index can't be read" in run(folder, *verb)


def test_missing_parts_of_an_archive_are_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index without its first line hides records as well as one that is gone."""
    data, index = files_of(folder)
    lines, content = index.read_bytes().splitlines(keepends=True), data.read_bytes()
    call_command("archive", "--folder", str(folder), "verify")
    index.write_bytes(lines[1])
    assert "no line for the bytes from 0" in run(folder, "show", REF)
    index.write_bytes(NESTED + b"\n")
    assert "can't be read" in run(folder, "list")
    index.unlink()
    assert "task-2026-11-01.index is missing" in run(folder, "show", REF)
    index.write_bytes(b"".join(lines))
    data.unlink()
    assert "No such file" in run(folder, "show", REF)
    call_command("archive", "--folder", str(folder), "list")
    assert "2 records, missing" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        call_command("archive", "--folder", str(folder), "verify")
    data.write_bytes(content)
    call_command("archive", "--folder", str(folder), "verify")


def test_a_file_that_lost_its_index_is_not_written_over(folder: Path) -> None:
    data, index = files_of(folder)
    content = data.read_bytes()
    index.unlink()
    with (
        open_writer(folder, DAY, archives.ROWS) as writer,
        pytest.raises(DamagedArchive, match="is missing"),
    ):
        writer.append("task", [Record('{"names": []}', ())])
    assert data.read_bytes() == content and not index.exists()


def test_files_with_other_names_are_not_the_archives(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name in (b"\xff.jsonl.gz", b"\x1b[31m.jsonl.gz", b"task-2026-11-01 (2).jsonl.gz"):
        (folder / os.fsdecode(name)).write_bytes(b"x")
    write_batch(folder, gzip.compress(json.dumps({"names": [REF, "\ud800"]}).encode() + b"\n"))
    for verb in (("list",), ("verify",), ("show", REF)):
        call_command("archive", "--folder", str(folder), *verb)
    assert b"\x1b" not in capsysbinary.readouterr().out
