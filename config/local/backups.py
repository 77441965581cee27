"""Backups of an instance with embedded servers: the database and the secrets, in one file.

`manage.py backup FILE` runs while Tenfour runs. `manage.py restore FILE` fills a folder that has no
data yet. A backup is a tar archive; its manifest comes last, so a file that was cut short has none.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from config import __version__
from config.environment import read_text
from config.local import places
from config.local.commands import START_ERRORS, describe_start_error
from config.local.embedded import Servers, postgres_answers, servers_of, wheels
from config.local.places import PROJECT, RESTORING, Place, Refused

DUMP, MANIFEST = "database.dump", "manifest.json"
SECRETS = ("secret_key", "credentials")
SMALL_BYTES = 65_536  # of a manifest, or of a file of secrets
READ_BYTES = 2**20  # at once
START_S = 60
# the greatest number of a transaction in the journal and in the positions of its readers
NEWEST = """select greatest(0, (select max(tx)::text::bigint from ledger_event),
    (select max(tx) from retries_streamcursor))"""
PRINT_NEWEST = ("--no-psqlrc", "--tuples-only", "--no-align", f"--command={NEWEST}", "tenfour")
USAGE = "Usage: manage.py backup FILE, or: manage.py restore FILE"


# ---- backup


def backup(data: Path, file: Path) -> str:
    """Write the backup; return a sentence about it. Raise Refused if Tenfour is not running."""
    if read_text("DATABASE_URL"):
        raise Refused("DATABASE_URL names a server of your own. Back it up with its own pg_dump.")
    if places.running_address(data) is None:
        raise Refused(f"Tenfour is not running in {data}. Start it with 'make up', then try again.")
    # A device would be replaced, too.
    if file.exists() and not file.is_file():
        raise Refused(f"{file} is not a regular file. Name one that may be replaced.")
    servers = servers_in_use(places.place_of(data))
    part = file.with_name(f"{file.name}.part")
    with tempfile.TemporaryDirectory(prefix="backup-", dir=data) as folder:
        dump = Path(folder) / DUMP
        run_tool("pg_dump", servers, "--format=custom", f"--file={dump}", "tenfour")
        found = [data / name for name in SECRETS if (data / name).exists()]
        try:
            write_archive(part, [dump, *found])
            part.replace(file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    return f"{file} has the database and the secrets of {data}: keep it as safe as a password."


def servers_in_use(place: Place) -> Servers:
    return Servers.of_stored(place, json.loads((place.home / "servers.json").read_text()))


def write_archive(path: Path, files: list[Path]) -> None:
    # The archive must be on the disk when this returns.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as out:
        with tarfile.open(fileobj=out, mode="w") as archive:
            write_members(archive, files)
        out.flush()
        os.fsync(out.fileno())


def write_members(archive: tarfile.TarFile, files: list[Path]) -> None:
    for file in files:
        archive.add(file, arcname=file.name)
    manifest = {
        "version": __version__,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "sha256": {file.name: digest_of(file) for file in files},
    }
    text = json.dumps(manifest, indent=1).encode()
    member = tarfile.TarInfo(MANIFEST)
    member.size, member.mtime, member.mode = len(text), int(time.time()), 0o600
    archive.addfile(member, io.BytesIO(text))


def digest_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


# ---- restore


def restore(data: Path, file: Path) -> str:
    """Create the data folder from a backup; return a sentence about it.

    Raise Refused, with nothing left behind, if the file is not a whole backup or the folder has
    data already. What an interrupted restore left is replaced.
    """
    if read_text("DATABASE_URL"):
        raise Refused(
            "DATABASE_URL names a server of your own. Restore it with its own pg_restore."
        )
    if (where := places.running_address(data)) is not None:
        raise Refused(f"Tenfour is running: {where}. Stop it, and restore into another folder.")
    if (data / RESTORING).exists():
        places.remove(data)
    if data.exists() and any(data.iterdir()):
        raise Refused(
            f"{data} has data already. Set TENFOUR_DATA to a new folder, or run 'make clean' first."
        )
    place = places.place_of(data)
    if place.home != data and any(place.home.iterdir()):
        shutil.rmtree(data)
        raise Refused(
            f"{place.home} has the database of an earlier {data}. Start it with 'make up', or set "
            "TENFOUR_DATA to a new folder."
        )
    held = places.lock(data)
    if held is None:
        raise Refused(places.describe_holders(data / "lock"))
    try:
        with held:
            (data / RESTORING).touch()
            manifest = fill(place, file)
            (data / RESTORING).unlink()
    except BaseException:
        places.remove(data)
        raise
    return f"Restored the backup of {manifest['created_at']} into {data}. Start it with 'make up'."


def fill(place: Place, file: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="restore-", dir=place.data) as name:
        folder = Path(name)
        manifest = extract(file, folder)
        servers = servers_of(place)
        servers.create()
        with run_postgres(servers):
            # A dump has a database's rights, but not the roles of its server that have them.
            options = ("--no-owner", "--no-privileges", "--exit-on-error", "--dbname=tenfour")
            run_tool("pg_restore", servers, *options, str(folder / DUMP))
            newest = int(run_tool("psql", servers, *PRINT_NEWEST))
        # New events follow the restored ones in the stream, for its readers and their positions.
        servers.start_epoch((newest >> 32) + 1)
        for secret in SECRETS:
            if (folder / secret).exists():
                places.write_private(place.data / secret, (folder / secret).read_text())
    return manifest


def extract(file: Path, folder: Path) -> dict[str, Any]:
    broken = Refused(f"{file} is not a whole backup: it was cut short or changed.")
    try:
        content = file.open("rb")
    except FileNotFoundError:
        raise Refused(f"There is no file {file}.") from None
    with content:
        try:
            with tarfile.open(fileobj=ShortReads(content), mode="r:") as archive:
                extract_members(archive, folder)
            return read_manifest(folder)
        except (
            *(tarfile.TarError, FileNotFoundError, EOFError),
            *(ValueError, TypeError, KeyError, AttributeError, RecursionError),
        ):
            raise broken from None


class ShortReads(io.BufferedIOBase):
    """A file that refuses to read much at once, as for a header that claims to be large."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def read(self, size: int | None = None, /) -> bytes:
        if size is None or not 0 <= size <= READ_BYTES:
            raise tarfile.ReadError(f"can't read {size} bytes at once")
        return self.file.read(size)


def extract_members(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract the files that a backup has; raise ValueError at any other."""
    left = {DUMP, *SECRETS, MANIFEST}
    for member in archive:
        # The size of a sparse file says nothing about the bytes that the archive has for it.
        is_file = member.isreg() and not member.issparse()
        if member.name not in left or not is_file:
            raise ValueError("it is no part of a backup")
        if member.name != DUMP and member.size > SMALL_BYTES:
            raise ValueError("it is too large")
        left.remove(member.name)
        content = archive.extractfile(member)
        assert content is not None  # a regular file has content
        opened = os.open(folder / member.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with content, open(opened, "wb") as file:
            shutil.copyfileobj(content, file)


def read_manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    digests = manifest["sha256"]
    names = {each.name for each in folder.iterdir()} - {MANIFEST}
    if DUMP not in names or digests.keys() != names:
        raise KeyError("the manifest has other files")
    if any(digest_of(folder / name) != digests[name] for name in names):
        raise ValueError("a file was changed")
    for name in names - {DUMP}:
        (folder / name).read_text()
    datetime.fromisoformat(manifest["created_at"])
    return manifest


@contextmanager
def run_postgres(servers: Servers) -> Iterator[None]:
    command = servers.postgres_command()
    try:
        process = subprocess.Popen(
            command.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **command.options()
        )
    except START_ERRORS as error:
        raise Refused(f"PostgreSQL {describe_start_error(error)}.") from None
    try:
        end = time.monotonic() + START_S
        while not postgres_answers(servers.postgres.port):
            if process.poll() is not None or time.monotonic() > end:
                raise Refused("PostgreSQL did not start.")
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(command.stop)
        process.wait()


# ---- both


def run_tool(name: str, servers: Servers, *options: str) -> str:
    """Run one of PostgreSQL's own tools on the database, and return its output.

    Raise Refused with its errors if it fails.
    """
    address = ["--host=127.0.0.1", f"--port={servers.postgres.port}", "--username=tenfour"]
    done = subprocess.run(
        [wheels()[0] / "bin" / name, *address, *options],
        env={"PATH": os.defpath, "PGPASSWORD": servers.postgres.password},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Refused(f"{name} failed:\n{done.stderr.strip()}")
    return done.stdout


def main(argv: list[str]) -> int:
    verbs = {"backup": backup, "restore": restore}
    if len(argv) != 2 or argv[0] not in verbs or argv[1].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    data = Path(read_text("DATA") or PROJECT / ".tenfour").resolve()
    try:
        print(verbs[argv[0]](data, Path(argv[1]).absolute()))
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        print(f"{argv[0]} failed: {name}{error.strerror}.", file=sys.stderr)
        return 1
    return 0
