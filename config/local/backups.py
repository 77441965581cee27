"""Backups of an instance with embedded servers: the database and the secrets, in one file.

`manage.py backup FILE` runs while Tenfour runs. `manage.py restore FILE` fills a folder that has no
data yet. A backup is a tar archive; its manifest comes last, so a file that was cut short has none.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from config import __version__
from config.local import places
from config.local.commands import START_ERRORS, describe_start_error
from config.local.embedded import Servers, postgres_answers, servers_of, wheels
from config.local.places import PROJECT, Place, Refused

DUMP, MANIFEST = "database.dump", "manifest.json"
SECRETS = ("secret_key", "credentials")
START_S = 60
USAGE = "Usage: manage.py backup FILE, or: manage.py restore FILE"


# ---- backup


def backup(data: Path, file: Path) -> str:
    """Write the backup; return a sentence about it. Raise Refused if Tenfour is not running."""
    if os.environ.get("DATABASE_URL"):
        raise Refused("DATABASE_URL names a server of your own. Back it up with its own pg_dump.")
    if places.running_address(data) is None:
        raise Refused(f"Tenfour is not running in {data}. Start it with 'make up', then try again.")
    servers = servers_in_use(places.place_of(data))
    part = file.with_name(f"{file.name}.part")
    with tempfile.TemporaryDirectory(prefix="backup-", dir=data) as folder:
        dump = Path(folder) / DUMP
        run_tool("pg_dump", servers, "--format=custom", f"--file={dump}", "tenfour")
        found = [data / name for name in SECRETS if (data / name).exists()]
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as out:
            with tarfile.open(fileobj=out, mode="w") as archive:
                write_members(archive, [dump, *found])
            out.flush()
            os.fsync(out.fileno())
    part.replace(file)
    return f"{file} has the database and the secrets of {data}: keep it as safe as a password."


def servers_in_use(place: Place) -> Servers:
    """Return the running servers of a place, on the ports that they have."""
    return Servers.of_stored(place, json.loads((place.home / "servers.json").read_text()))


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
    data already.
    """
    if os.environ.get("DATABASE_URL"):
        raise Refused(
            "DATABASE_URL names a server of your own. Restore it with its own pg_restore."
        )
    if (where := places.running_address(data)) is not None:
        raise Refused(f"Tenfour is running: {where}. Stop it, and restore into another folder.")
    if data.exists() and any(data.iterdir()):
        raise Refused(
            f"{data} has data already. Set TENFOUR_DATA to a new folder, or run 'make clean' first."
        )
    place = places.place_of(data)
    held = places.lock(data)
    if held is None:
        raise Refused(places.describe_holders(data / "lock"))
    try:
        with held:
            manifest = fill(place, file)
    except BaseException:
        places.remove(data)
        raise
    return f"Restored the backup of {manifest['created_at']} into {data}. Start it with 'make up'."


def fill(place: Place, file: Path) -> dict[str, Any]:
    """Create the database and the secrets of a new place; return the backup's manifest."""
    with tempfile.TemporaryDirectory(prefix="restore-", dir=place.data) as name:
        folder = Path(name)
        manifest = extract(file, folder)
        servers = servers_of(place)
        servers.create()
        with run_postgres(servers):
            options = ("--no-owner", "--exit-on-error", "--dbname=tenfour")
            run_tool("pg_restore", servers, *options, str(folder / DUMP))
        for secret in SECRETS:
            if (folder / secret).exists():
                places.write_private(place.data / secret, (folder / secret).read_text())
    return manifest


def extract(file: Path, folder: Path) -> dict[str, Any]:
    """Extract a backup's files and compare them with its manifest."""
    broken = Refused(f"{file} is not a whole backup: it was cut short or changed.")
    try:
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        digests = manifest["sha256"]
    except FileNotFoundError as error:
        raise broken if file.exists() else Refused(f"There is no file {error.filename}.") from None
    except (tarfile.TarError, OSError, ValueError, KeyError, EOFError):
        raise broken from None
    if DUMP not in digests or any(digest_of(folder / name) != digests[name] for name in digests):
        raise broken
    return manifest


@contextmanager
def run_postgres(servers: Servers) -> Iterator[None]:
    """Run the database server while its data is restored."""
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


def run_tool(name: str, servers: Servers, *options: str) -> None:
    """Run one of PostgreSQL's own tools on the database; raise Refused with what it said."""
    address = ["--host=127.0.0.1", f"--port={servers.postgres.port}", "--username=tenfour"]
    done = subprocess.run(
        [wheels()[0] / "bin" / name, *address, *options],
        env={"PATH": os.defpath, "PGPASSWORD": servers.postgres.password},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Refused(f"{name} failed:\n{done.stderr.strip()}")


def main(argv: list[str]) -> int:
    """Run `backup FILE` or `restore FILE`."""
    verbs = {"backup": backup, "restore": restore}
    if len(argv) != 2 or argv[0] not in verbs or argv[1].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    data = Path(os.environ.get("TENFOUR_DATA") or PROJECT / ".tenfour").resolve()
    try:
        print(verbs[argv[0]](data, Path(argv[1]).absolute()))
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{argv[0]} failed: {error.filename}: {error.strerror}.", file=sys.stderr)
        return 1
    return 0
