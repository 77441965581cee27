"""The archive's files: damaged ones, odd names, and the files of an earlier version."""

import gzip
import json
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from retries.retention import archives
from retries.retention.archives import Record, open_writer

REF = "03-01:task-3"
DAY = date(2026, 11, 1)
MINE, OTHER = UUID(int=1), UUID(int=2)
FILE = f"{MINE}/2026-11-01.jsonl.gz"
RECORDS = 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an archive with a batch of two records, and another of one."""
    folder = tmp_path / "archive"
    with open_writer(folder, DAY, archives.ROWS) as writer:
        for numbers in ((1, 2), (3,)):
            writer.append([record(MINE, number=number) for number in numbers])
    return folder


def record(project: UUID, **fields: Any) -> Record:
    return Record(json.dumps({"names": [REF], **fields}), project)


def run(folder: Path, *arguments: str) -> None:
    call_command("archive", "--folder", str(folder), *arguments)


def refuse(folder: Path, *arguments: str) -> str:
    """Return the error that the command ends with."""
    with pytest.raises(CommandError) as raised:
        run(folder, *arguments)
    return str(raised.value)


def test_odd_names_are_not_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("", "*", "../../etc/passwd", "\0", "\udcff", "03-01:task-", "x" * 10_000):
        error = refuse(folder, "show", name)
        assert "No record" in error and error.encode(), name
    run(folder, "show", REF)
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert "There are no archives" in refuse(folder / "elsewhere", "show", REF)


def test_a_record_is_found_by_a_name_in_any_writing(folder: Path) -> None:
    name = 'é "3" \\'
    text = json.dumps({"names": [name]}, ensure_ascii=False)
    with open_writer(folder, DAY, archives.ROWS) as writer:
        writer.append([Record(text, MINE)])
    assert list(archives.find_records(folder, name, pytest.fail)) == [{"names": [name]}]


def pack(line: bytes) -> bytes:
    return archives.pack(line + b"\n" + record(MINE, number=9).text.encode() + b"\n")


# what becomes of the two batches -> the numbers of the records that are left, and the report
DAMAGE: dict[str, tuple[Callable[[bytes, bytes], bytes], list[int], str]] = {
    "a batch cut short": (lambda a, b: a[:-5] + b, [3], "the batch after line 0 can't be read"),
    "the end cut short": (lambda a, b: a + b[:-5], [1, 2], "the batch after line 2 can't be read"),
    "another byte": (
        lambda a, b: a[:-9] + bytes([a[-9] ^ 1]) + a[-8:] + b,
        [3],
        "the batch after line 0",
    ),
    "no gzip": (lambda a, b: b"no gzip" + b, [3], "the batch after line 0 can't be read"),
    "no deflate": (lambda a, b: a[:12] + b"\xff" * 20 + b, [3], "the batch after line 0"),
    **{
        f"the line {line[:12]!r}": (
            lambda a, b, line=line: a + pack(line) + b,  # type: ignore[misc]
            [1, 2, 9, 3],
            "line 3 can't be read",
        )
        for line in (b"[]", b"5", b"{}", b'{"names": 5}', b"\xff", b"{", b"[" * 100_000)
    },
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_reported_and_the_rest_is_read(
    folder: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change, left, report = DAMAGE[what]
    path = folder / FILE
    path.write_bytes(change(*archives.read_batches(path)))
    problems: list[str] = []
    found = [line["number"] for _, line in archives.read_records(path, problems.append)]
    assert found == left
    (problem,) = problems
    assert problem.startswith(f"{FILE}: {report}")
    with pytest.raises(SystemExit):
        run(folder, "verify")
    assert problem in capsys.readouterr().out
    run(folder, "show", REF)
    assert len(capsys.readouterr().out.splitlines()) == len(left)


def test_what_cannot_be_written_whole_is_not_left_in_part(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up: the file ends as it did before."""
    path = folder / FILE
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with (
        monkeypatch.context() as patched,
        open_writer(folder, DAY, archives.ROWS) as writer,
        pytest.raises(OSError, match="No space"),
    ):
        patched.setattr(os, "fsync", fail)
        writer.append([record(MINE, number=4)])
    assert path.read_bytes() == before


def test_files_with_other_names_are_not_the_archives(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name in (b"\xff.jsonl.gz", b"\x1b[31m.jsonl.gz", b"task-2026-11-01 (2).jsonl.gz"):
        (folder / os.fsdecode(name)).write_bytes(b"x")
        ((folder / FILE).parent / os.fsdecode(name)).write_bytes(b"x")
    (folder / FILE).write_bytes(archives.pack(b'{"names": ["03-01:task-3", "\\ud800"]}\n'))
    for verb in (("list",), ("verify",), ("show", REF)):
        run(folder, *verb)
    assert b"\x1b" not in capsysbinary.readouterr().out


# ---- a project's records are deleted


def write_shared(folder: Path) -> Path:
    """Write the files of an earlier version, which have the rows of all projects."""
    lines: list[dict[str, Any]] = []
    for project, session in ((MINE, "s-1"), (OTHER, "s-2")):
        row = {"id": session, "project_id": str(project)}
        lines += [
            {"kind": "session", "names": [session], "session": row},
            {"kind": "message", "names": [session], "message": {"session_id": session}},
            {"kind": "task", "names": [REF, session], "task": row},
            {"kind": "event", "names": [session], "event": row},
        ]
    for kind in ("session", "task"):
        path = folder / f"{kind}-2026-10-01.jsonl.gz"
        with path.open("wb") as file:
            # one batch for each line, and something that can't be read
            for line in lines:
                if (kind == "session") == (line["kind"] in ("session", "message")):
                    file.write(gzip.compress(json.dumps(line).encode() + b"\n", mtime=0))
            file.write(archives.pack(b"{}\n") + archives.BATCH_START)
        path.with_name(f"{kind}-2026-10-01.index").write_text(f'{{"names": ["{REF}"]}}\n')
    return folder


def names_in(folder: Path) -> list[str]:
    return [
        record["names"][-1]
        for path in archives.list_files(folder)
        for _, record in archives.read_records(path, lambda _: None)
    ]


def test_the_files_of_an_earlier_version_are_read_and_lose_a_project(folder: Path) -> None:
    write_shared(folder)
    assert names_in(folder) == [
        *("s-1", "s-1", "s-2", "s-2"), *("s-1", "s-1", "s-2", "s-2"), *(REF,) * 3
    ]  # fmt: skip
    with open_writer(folder, DAY, archives.JOURNAL) as writer:
        writer.append([record(OTHER), record(MINE)])
    sizes = {path: path.read_bytes() for path in archives.list_shared_files(folder)}
    archives.delete_project(folder, UUID(int=3))
    assert {path: path.read_bytes() for path in archives.list_shared_files(folder)} == sizes
    archives.delete_project(folder, MINE)
    assert names_in(folder) == [*("s-2",) * 4, REF]
    left = {path.name: path for path in folder.rglob("*") if path.is_file()}
    assert left.keys() == {
        *(".rows.lock", ".journal.lock"), *(path.name for path in sizes), "2026-11-01.jsonl.gz"
    }  # fmt: skip
    for path in sizes:
        assert path.read_bytes().endswith(archives.BATCH_START)  # what can't be read stays
        assert path.stat().st_mode & 0o777 == archives.FILE_MODE
    archives.delete_project(folder / "elsewhere", MINE)
    assert not (folder / "elsewhere").exists()
