"""Archives: what was deleted, as JSON lines, one gzip file for each kind and day.

Beside each file is an index with one line for each batch: where the batch is in the file, its
SHA-256, and the names of its records. A batch counts once its line is written, so a file may end
with a part of a batch that the index does not know: its rows are still in the database, and the
next run writes over it.
"""

import fcntl
import gzip
import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO

# The parts of an archive. They have no kinds in common, so each has a lock of its own.
ROWS, JOURNAL = "rows", "journal"
FILE_MODE, FOLDER_MODE = 0o640, 0o750
DATA, INDEX = ".jsonl.gz", ".index"
NAME = re.compile(r"[a-z_]+-\d{4}-\d\d-\d\d", re.ASCII)
LARGEST = 2**48  # bytes; a file can't be read at a place far beyond
LONGEST_LINE = 2**28  # bytes; PostgreSQL can't build a larger JSON value
READ_BYTES = 2**20  # at a time


class ArchiveBusy(Exception):
    """Another run writes to this part of the archive."""


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
    """Appends batches to the files of one day and one part. `open_writer` makes it."""

    folder: Path
    day: date
    closing: ExitStack
    files: dict[str, OpenFile] = field(default_factory=dict)

    def append(self, kind: str, records: Sequence[Record]) -> None:
        """Write a batch of records; when this returns, they are on the disk."""
        if records:
            self.open(kind).append(records)

    def open(self, kind: str) -> OpenFile:
        """Return the day's file of a kind, without what a run that was cut short left.

        Raises DamagedArchive if its index is not as it was written.
        """
        if kind not in self.files:
            path = self.folder / f"{kind}-{self.day:%Y-%m-%d}{DATA}"
            end = find_end(path)  # a file that lost its index is not written over
            data = self.closing.enter_context(open_private(path))
            index = self.closing.enter_context(open_private(index_of(path)))
            sync_folder(self.folder)
            index.seek(sum(len(line) for line in read_whole_lines(index)))
            self.files[kind] = OpenFile(data, index, end)
        return self.files[kind]


@contextmanager
def open_writer(folder: Path, day: date, part: str) -> Iterator[Writer]:
    """Open a part of the archive for one run at a time; raises ArchiveBusy.

    The other part may be open: a run lasts a minute, and the clock starts both at the same time.
    """
    make_folder(folder)
    with ExitStack() as closing:
        # A worker of the version before the parts holds this lock alone, for all kinds.
        lock_file(closing.enter_context(open_private(folder / ".lock")), fcntl.LOCK_SH)
        lock_file(closing.enter_context(open_private(folder / f".{part}.lock")), fcntl.LOCK_EX)
        yield Writer(folder, day, closing)


def lock_file(file: BinaryIO, how: int) -> None:
    """Lock a file until it is closed; raises ArchiveBusy at once if another run holds it."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ArchiveBusy from None


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
    """Return the data files of an archive, by kind and day; of some, only the index may be left.

    Files with other names are not the archive's.
    """
    names = {
        path.name.removesuffix(suffix)
        for suffix in (DATA, INDEX)
        for path in folder.glob(f"*{suffix}")
    }
    return [folder / f"{name}{DATA}" for name in sorted(names) if NAME.fullmatch(name)]


def read_whole_lines(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    """Yield the lines that end; the last one may have been cut short.

    Raises ValueError at a line that is longer than any that was written.
    """
    while (line := file.readline(LONGEST_LINE + 1)).endswith(b"\n"):
        yield line
    if len(line) > LONGEST_LINE:
        raise ValueError(f"a line has more than {LONGEST_LINE:,} bytes")


def read_index(path: Path) -> Iterator[Batch]:
    """Yield the batches of a data file; raises DamagedArchive where the index is not as it was."""
    index = index_of(path)
    if not index.exists():
        if path.exists() and path.stat().st_size:
            raise DamagedArchive(f"{index.name} is missing")
        return
    with index.open("rb") as file:
        try:
            yield from parse_index(file)
        except DamagedArchive as error:
            raise DamagedArchive(f"{index.name} {error}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise DamagedArchive(f"{index.name} can't be read") from error


def find_end(path: Path) -> int:
    """Return the size of a data file's whole batches. The names of a whole day fill the memory."""
    end = 0
    for batch in read_index(path):
        end = batch.end
    return end


def parse_index(file: BinaryIO) -> Iterator[Batch]:
    """Yield the batches of an index; raises ValueError, TypeError or RecursionError."""
    end = 0
    for line in read_whole_lines(file):
        batch = parse_batch(json.loads(line))
        if batch.offset != end:
            raise DamagedArchive(f"has no line for the bytes from {end}")
        end = batch.end
        yield batch


def parse_batch(fields: Any) -> Batch:
    """Return the batch of an index line; raises ValueError or TypeError if it is none."""
    batch = Batch(**fields)
    numbers = (batch.offset, batch.size, batch.records)
    if not all(type(each) is int and 0 <= each < LARGEST for each in numbers):
        raise ValueError("a place or a size is no number of bytes")
    if not isinstance(batch.names, list):
        raise TypeError("the names are no list")
    return batch


class Part(io.BufferedIOBase):
    """The next `size` bytes of a file, as a file of their own."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.left = file, size

    def read(self, size: int | None = None, /) -> bytes:
        content = self.file.read(self.left if size is None else min(size, self.left))
        self.left -= len(content)
        return content


def read_batch(file: BinaryIO, batch: Batch) -> Iterator[str]:
    """Yield the lines of a batch; raises ValueError if they are not what was written.

    However far a batch unpacks, only one of its lines is in memory at a time.
    """
    if digest_of(file, batch) != batch.sha256:
        raise ValueError(f"the {batch.size} bytes from {batch.offset} have another SHA-256")
    file.seek(batch.offset)
    records = 0
    with gzip.GzipFile(fileobj=Part(file, batch.size), mode="rb") as content:
        for line in read_whole_lines(content):
            records += 1
            if records > batch.records:
                break
            yield line[:-1].decode()
    if records != batch.records:
        than = "more" if records > batch.records else "fewer"
        raise ValueError(f"the batch at {batch.offset} has {than} than {batch.records} records")


def digest_of(file: BinaryIO, batch: Batch) -> str:
    file.seek(batch.offset)
    part, digest = Part(file, batch.size), hashlib.sha256()
    while content := part.read(READ_BYTES):
        digest.update(content)
    return digest.hexdigest()


def find_records(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield the records with this id or ref, the oldest first, and each text once.

    A run that was killed may have archived a row that it did not delete; the next one does again.
    Raises DamagedArchive at a batch that can't be read.
    """
    seen: set[bytes] = set()
    for path in sorted(list_files(folder), key=lambda each: each.name.removesuffix(DATA)[-10:]):
        batches = [replace(each, names=()) for each in read_index(path) if name in each.names]
        if batches:
            with path.open("rb") as file:
                for line, record in read_records(file, batches):
                    digest = hashlib.sha256(line.encode()).digest()
                    if name in record["names"] and digest not in seen:
                        seen.add(digest)
                        yield record


def read_records(file: BinaryIO, batches: Iterable[Batch]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of batches with their records; raises DamagedArchive."""
    try:
        for batch in batches:
            for line in read_batch(file, batch):
                yield line, parse_record(line)
    except (ValueError, OSError, EOFError, RecursionError, zlib.error) as error:
        raise DamagedArchive(f"{Path(file.name).name}: {error}") from error


def parse_record(line: str) -> dict[str, Any]:
    """Return the record of a line; raises ValueError if it is none."""
    record: Any = json.loads(line)
    if not isinstance(record, dict) or not isinstance(record.get("names"), list):
        raise ValueError("a line is no record with names")
    return record


def verify(path: Path) -> Iterable[str]:
    """Return what is wrong with a data file."""
    problems: list[str] = []
    try:
        with path.open("rb") as file:
            for batch in read_index(path):
                try:
                    for _ in read_records(file, [batch]):
                        pass
                except DamagedArchive as error:
                    problems.append(str(error))
    except DamagedArchive as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{path.name}: {error.strerror}")
    return problems
