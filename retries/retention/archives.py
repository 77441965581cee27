"""Archives: what was deleted, as JSON lines, one gzip file for each kind and day.

Beside each file is an index with one line for each batch: where the batch is in the file, its
SHA-256, and the names of its records. A batch counts once its line is written, so a file may end
with a part of a batch that the index does not know: its rows are still in the database, and the
next run writes over it.
"""

import fcntl
import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO

FILE_MODE, FOLDER_MODE = 0o640, 0o750
DATA, INDEX = ".jsonl.gz", ".index"


class ArchiveBusy(Exception):
    """Another run writes to the archive."""


class DamagedArchive(ValueError):
    """A file of the archive is not as it was written."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of an archive, and the names that find it: ids, and refs of tasks and plans."""

    text: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """One line of an index."""

    offset: int
    size: int
    records: int
    sha256: str
    names: Sequence[str]

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(slots=True)
class OpenFile:
    """A data file and its index, at the end of their last whole batch."""

    data: BinaryIO
    index: BinaryIO
    end: int

    def append(self, records: Sequence[Record]) -> None:
        """Append a batch; when this returns, it is on the disk."""
        text = "".join(f"{each.text}\n" for each in records)
        packed = gzip.compress(text.encode(), mtime=0)
        self.data.seek(self.end)
        write_through(self.data, packed)
        names = list(dict.fromkeys(name for each in records for name in each.names))
        line = {
            "offset": self.end,
            "size": len(packed),
            "records": len(records),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "names": names,
        }
        write_through(self.index, json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self.end += len(packed)


def write_through(file: BinaryIO, content: bytes) -> None:
    """Write to a file as its end, and wait until the disk has it."""
    file.write(content)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())


@dataclass(slots=True)
class Writer:
    """Appends batches to the files of one day. `open_writer` makes it."""

    folder: Path
    day: date
    closing: ExitStack
    files: dict[str, OpenFile] = field(default_factory=dict)

    def append(self, kind: str, records: Sequence[Record]) -> None:
        """Write a batch of records; when this returns, they are on the disk."""
        if records:
            self.open(kind).append(records)

    def open(self, kind: str) -> OpenFile:
        """Return the day's file of a kind, without what a run that was cut short left."""
        if kind not in self.files:
            path = self.folder / f"{kind}-{self.day:%Y-%m-%d}{DATA}"
            data = self.closing.enter_context(open_private(path))
            index = self.closing.enter_context(open_private(index_of(path)))
            sync_folder(self.folder)
            batches = list(read_index(path))
            index.seek(sum(len(line) for line in whole_lines(index.read())))
            self.files[kind] = OpenFile(data, index, batches[-1].end if batches else 0)
        return self.files[kind]


@contextmanager
def open_writer(folder: Path, day: date) -> Iterator[Writer]:
    """Open the archive for one run at a time; raises ArchiveBusy."""
    make_folder(folder)
    with ExitStack() as closing:
        lock = closing.enter_context(open_private(folder / ".lock"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArchiveBusy from None
        yield Writer(folder, day, closing)


def make_folder(folder: Path) -> None:
    """Create a folder that other users can't enter, with its parents."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=FOLDER_MODE, exist_ok=True)


def open_private(path: Path) -> BinaryIO:
    """Open a file to read and write that other users can't read; create it if it is missing."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE), "r+b")
    # Archives contain the output of programs, and the umask may allow more or less.
    os.fchmod(file.fileno(), FILE_MODE)
    return file


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of new files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- reading


def index_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(DATA) + INDEX)


def list_files(folder: Path) -> list[Path]:
    """Return the data files of an archive, by kind and day."""
    return sorted(folder.glob(f"*{DATA}"))


def whole_lines(content: bytes) -> list[bytes]:
    """Return the lines that end; the last one may have been cut short."""
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


def read_index(path: Path) -> Iterator[Batch]:
    """Yield the batches of a data file; raises DamagedArchive at a line that is none."""
    index = index_of(path)
    if index.exists():
        for line in whole_lines(index.read_bytes()):
            try:
                batch = Batch(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise DamagedArchive(f"{index.name} can't be read") from error
            yield batch


def read_batch(file: BinaryIO, batch: Batch) -> list[str]:
    """Return the lines of a batch; raises ValueError if they are not what was written."""
    file.seek(batch.offset)
    packed = file.read(batch.size)
    if hashlib.sha256(packed).hexdigest() != batch.sha256:
        raise ValueError(f"the {batch.size} bytes from {batch.offset} have another SHA-256")
    # not splitlines: texts may contain other line separators
    lines = gzip.decompress(packed).decode().split("\n")[:-1]
    if len(lines) != batch.records:
        raise ValueError(f"the batch at {batch.offset} has {len(lines)} records")
    return lines


def find_records(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield the records with this id or ref, the oldest first, and each text once.

    A run that was killed may have archived a row that it did not delete; the next one does again.
    Raises DamagedArchive at a batch that can't be read.
    """
    seen: set[str] = set()
    for path in sorted(list_files(folder), key=lambda each: each.name.removesuffix(DATA)[-10:]):
        batches = [each for each in read_index(path) if name in each.names]
        if batches:
            with path.open("rb") as file:
                for line, record in read_records(file, batches):
                    if name in record["names"] and line not in seen:
                        seen.add(line)
                        yield record


def read_records(file: BinaryIO, batches: Iterable[Batch]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of batches with their records; raises DamagedArchive."""
    for batch in batches:
        try:
            found = [(line, json.loads(line)) for line in read_batch(file, batch)]
        except (ValueError, OSError, EOFError) as error:
            raise DamagedArchive(f"{Path(file.name).name}: {error}") from error
        yield from found


def verify(path: Path) -> Iterable[str]:
    """Return what is wrong with a data file."""
    try:
        batches = list(read_index(path))
    except DamagedArchive as error:
        return [str(error)]
    problems = []
    with path.open("rb") as file:
        for batch in batches:
            try:
                for line in read_batch(file, batch):
                    json.loads(line)
            except (ValueError, OSError, EOFError) as error:
                problems.append(f"{path.name}: {error}")
    return problems
