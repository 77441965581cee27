"""Archives: what was deleted, as JSON lines, one gzip file for each project and day.

Each batch is a gzip member. Reading skips a damaged batch or line, reports it, and continues.
"""

import fcntl
import gzip
import json
import mmap
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

# The runs that write: of each, there is one at a time.
ROWS, JOURNAL = "rows", "journal"
FILE_MODE, FOLDER_MODE = 0o640, 0o750
DATA = ".jsonl.gz"
DAY = r"\d{4}-\d\d-\d\d"
NAME = re.compile(rf"[0-9a-f-]{{36}}/{DAY}", re.ASCII)
# An earlier version wrote one file for each kind and day, with the rows of all projects.
SHARED_NAME = re.compile(rf"[a-z_]+-{DAY}", re.ASCII)
# Every batch begins with these bytes; JSON has no such ones, and packed JSON has them by no chance.
BATCH_START = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02"

Report = Callable[[str], None]


class ArchiveBusy(Exception):
    """Another run writes to this part of the archive."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of an archive. Its JSON has `names`: the ids and refs that find it."""

    text: str
    project_id: UUID


@dataclass(frozen=True, slots=True)
class Writer:
    """Appends batches to the files of one day. `open_writer` makes it."""

    folder: Path
    day: date

    def append(self, records: Sequence[Record]) -> None:
        """Write a batch of records; they are on the disk when this returns."""
        texts: dict[UUID, list[str]] = {}
        for each in records:
            texts.setdefault(each.project_id, []).append(each.text)
        for project_id, lines in texts.items():
            append_lines(self.folder / str(project_id) / f"{self.day:%Y-%m-%d}{DATA}", lines)


def append_lines(path: Path, lines: Sequence[str]) -> None:
    make_folder(path.parent)
    with open_private(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the other part may write to this file
        end = file.seek(0, os.SEEK_END)
        try:
            write_through(file, pack("".join(f"{line}\n" for line in lines).encode()))
        except OSError:
            os.ftruncate(file.fileno(), end)
            raise
    sync_folder(path.parent)


def pack(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


def write_through(file: BinaryIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file.fileno(), left) :]
    os.fsync(file.fileno())


@contextmanager
def open_writer(folder: Path, day: date, part: str) -> Iterator[Writer]:
    """Open a part of the archive for one run at a time; raises ArchiveBusy."""
    # The other part may be open: a run lasts a minute, and the clock starts both at the same time.
    make_folder(folder)
    with lock_part(folder, part, fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield Writer(folder, day)


@contextmanager
def lock_part(folder: Path, part: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    with open_private(folder / f".{part}.lock") as file:
        try:
            fcntl.flock(file, how)
        except BlockingIOError:
            raise ArchiveBusy from None
        yield


def make_folder(folder: Path) -> None:
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=FOLDER_MODE, exist_ok=True)


def open_private(path: Path) -> BinaryIO:
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE), "r+b")
    # Archives contain the output of programs, and the umask may allow more or less.
    os.fchmod(file.fileno(), FILE_MODE)
    return file


def sync_folder(folder: Path) -> None:
    # The names of new files must be on the disk, too.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- reading


def list_files(folder: Path) -> list[Path]:
    # Files with other names are not the archive's.
    own = [each for each in folder.glob(f"*/*{DATA}") if matches(NAME, each, folder)]
    days = sorted(own, key=lambda path: (path.name, path))
    return [*list_shared_files(folder), *days]


def list_shared_files(folder: Path) -> list[Path]:
    # The files of an earlier version are the oldest.
    found = [each for each in folder.glob(f"*{DATA}") if matches(SHARED_NAME, each, folder)]
    return sorted(found, key=lambda path: path.name.removesuffix(DATA)[-10:])


def matches(pattern: re.Pattern[str], path: Path, folder: Path) -> bool:
    return pattern.fullmatch(str(path.relative_to(folder)).removesuffix(DATA)) is not None


def read_batches(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start, end = 0, 0
            while end >= 0:
                end = content.find(BATCH_START, start + 1)
                yield content[start : end if end >= 0 else None]
                start = end


def read_lines(path: Path, report: Report) -> Iterator[tuple[int, bytes]]:
    """Yield a file's lines with their numbers; report batches that can't be read."""
    number = 0
    for batch in read_batches(path):
        try:
            lines = gzip.decompress(batch).splitlines()
        except (OSError, EOFError, zlib.error) as error:
            report(f"{name_of(path)}: the batch after line {number} can't be read: {error}.")
            continue
        for line in lines:
            number += 1
            yield number, line


def name_of(path: Path) -> str:
    return path.name if SHARED_NAME.match(path.name) else f"{path.parent.name}/{path.name}"


def read_records(
    path: Path, report: Report, *, name: str | None = None
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield a file's lines with their records, of one name if given; report damaged ones."""
    quoted = json.dumps(name or "", ensure_ascii=False).encode(errors="replace")
    for number, line in read_lines(path, report):
        if name is not None and quoted not in line:
            continue
        try:
            record = parse_record(line)
        except (ValueError, RecursionError):
            report(f"{name_of(path)}: line {number} can't be read.")
        else:
            if name is None or name in record["names"]:
                yield line, record


def parse_record(line: bytes) -> dict[str, Any]:
    """Return a line's record; raises ValueError or RecursionError if it has none."""
    record: Any = json.loads(line)
    if not isinstance(record, dict) or not isinstance(record.get("names"), list):
        raise ValueError("a line is no record with names")
    return record


def find_records(folder: Path, name: str, report: Report) -> Iterator[dict[str, Any]]:
    """Yield the records with this id or ref, oldest first, each text once."""
    # A killed run may have archived a row that it did not delete; the next run archives it again.
    seen: set[bytes] = set()
    for path in list_files(folder):
        for line, record in read_records(path, report, name=name):
            if line not in seen:
                seen.add(line)
                yield record


# ---- deleting


def delete_project(folder: Path, project_id: UUID) -> None:
    # Wait for the runs that may still write some of its records.
    if not folder.is_dir():
        return
    with lock_part(folder, ROWS), lock_part(folder, JOURNAL):
        own = folder / str(project_id)
        if own.exists():
            shutil.rmtree(own)
        sessions: set[str] = set()
        for path in list_shared_files(folder):
            delete_from_shared_file(path, str(project_id), sessions)


def delete_from_shared_file(path: Path, project: str, sessions: set[str]) -> None:
    """Rewrite a file of an earlier version without a project's records."""
    # A session stands before its messages, which do not name the project, so `sessions` collects
    # them.
    draft, changed = path.with_name(f"{path.name}.part"), False
    with open_private(draft) as out:
        out.truncate()
        for batch in read_batches(path):
            kept = keep_others(batch, project, sessions)
            changed |= kept is not batch
            out.write(kept)
        out.flush()
        os.fsync(out.fileno())
    if not changed:
        draft.unlink()
        return
    draft.replace(path)
    # the index of the earlier version, which has the records' names
    path.with_name(path.name.removesuffix(DATA) + ".index").unlink(missing_ok=True)


def keep_others(batch: bytes, project: str, sessions: set[str]) -> bytes:
    # Lines that can't be read stay.
    try:
        lines = gzip.decompress(batch).splitlines(keepends=True)
    except (OSError, EOFError, zlib.error):
        return batch
    kept = [line for line in lines if not is_of_project(line, project, sessions)]
    return batch if len(kept) == len(lines) else pack(b"".join(kept))


def is_of_project(line: bytes, project: str, sessions: set[str]) -> bool:
    try:
        record = parse_record(line)
        row = record[record["kind"]]
        if row.get("session_id") in sessions:
            return True
        found: bool = row.get("project_id") == project
    except (ValueError, RecursionError, LookupError, AttributeError, TypeError):
        return False
    if found and record["kind"] == "session":
        sessions.add(row["id"])
    return found
