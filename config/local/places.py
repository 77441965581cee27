"""The data folder of an instance, its lock, and the user that its servers run as."""

import fcntl
import hashlib
import json
import os
import pwd
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from config.environment import read_text

PROJECT = Path(__file__).resolve().parents[2]
CLOSED_HOMES = Path("/var/lib/tenfour")
RESTORING = "restoring"  # the name of a file that a data folder has until its restore has ended


class Refused(Exception):
    """Tenfour can't start here; the text says why and what to do."""


# ---- the user and the folders of the servers


@dataclass(frozen=True)
class User:
    uid: int
    gid: int


@dataclass(frozen=True)
class Place:
    """The folders of one instance, and the user of its servers (None: the user who starts it)."""

    data: Path
    home: Path
    user: User | None

    def own(self, path: Path) -> Path:
        if self.user:
            os.lchown(path, self.user.uid, self.user.gid)
        return path

    def adopt(self, name: str) -> None:
        """Give another user's files in a folder of the servers to the servers' current user."""
        path = self.path_of(name)
        if self.user and path.exists():
            for each in (path, *path.rglob("*")):
                known = each.lstat()
                # A second name of a file may be one that is not theirs.
                is_theirs = stat.S_ISDIR(known.st_mode) or known.st_nlink == 1
                if known.st_uid != self.user.uid and is_theirs:
                    os.lchown(each, self.user.uid, self.user.gid)

    def path_of(self, name: str) -> Path:
        """Return a path below `home`; raise Refused for a link."""
        # A link can point anywhere.
        path = self.home / name
        if path.is_symlink():
            raise Refused(f"{path} is a link. Remove it, then try again.")
        return path

    def folder(self, name: str) -> Path:
        path = self.path_of(name)
        path.mkdir(mode=0o700, exist_ok=True)
        return self.own(path)


def unprivileged() -> User | None:
    # Postgres refuses root, and Redis needs no such rights.
    name = read_text("RUN_AS")
    if os.geteuid() != 0:
        if name and name != pwd.getpwuid(os.geteuid()).pw_name:
            raise Refused(f"Only root can start the servers as {name}. Unset TENFOUR_RUN_AS.")
        return None
    try:
        known = pwd.getpwnam(name or "nobody")
    except KeyError:
        raise Refused(
            f"There is no user {name}. Create one with: useradd --system {name}"
        ) from None
    if known.pw_uid == 0:
        raise Refused("PostgreSQL refuses to run as root. Set TENFOUR_RUN_AS to another user.")
    return User(known.pw_uid, known.pw_gid)


def enterable(path: Path, user: User) -> bool:
    for folder in (path, *path.parents):
        known = folder.stat()
        mine = 6 if known.st_uid == user.uid else 3 if known.st_gid == user.gid else 0
        if not known.st_mode >> mine & 0o1:
            return False
    return True


def closed_home(data: Path) -> Path:
    return CLOSED_HOMES / hashlib.sha256(str(data).encode()).hexdigest()[:16]


def place_of(data: Path) -> Place:
    """Create the data folder; raise Refused if that is impossible."""
    user = unprivileged()
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"The data folder {data} can't be created: {error.strerror}.") from None
    if data.stat().st_uid != os.geteuid():
        raise Refused(
            f"{data} belongs to another user. Start Tenfour as the user who started it first, "
            "or use another data folder: TENFOUR_DATA=FOLDER make up"
        )
    return Place(data, home_of(data, user), user)


def home_of(data: Path, user: User | None) -> Path:
    """Return the servers' folder: `data`, or one in CLOSED_HOMES if they can't enter that."""
    if user is None or enterable(data.parent, user):
        return open_folder(data, user)
    data.chmod(0o700)
    home = closed_home(data)
    note_home(data, home)
    CLOSED_HOMES.mkdir(mode=0o711, parents=True, exist_ok=True)
    home.mkdir(mode=0o700, exist_ok=True)
    os.chown(home, user.uid, user.gid)
    return home


def open_folder(path: Path, user: User | None) -> Path:
    # The servers' user can pass through the folder and not list it.
    path.mkdir(mode=0o700, exist_ok=True)
    if user:
        os.chown(path, os.geteuid(), user.gid)
    path.chmod(0o710 if user else 0o700)
    return path


def note_home(data: Path, home: Path) -> None:
    """Write `home` to the data folder; raises Refused if another one there still exists."""
    note = data / "where"
    before = Path(note.read_text().strip()) if note.exists() else home
    if before != home and before.exists():
        raise Refused(
            f"The servers' data of this folder is in {before}, created when the folder had another "
            f"name. Move it to {home}, or remove {note} to start with empty data."
        )
    write_private(note, f"{home}\n")


def write_private(path: Path, text: str) -> None:
    """Replace `path` atomically with a file that only its owner can read."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)


# ---- one instance per data folder


def lock(data: Path) -> IO[str] | None:
    """Take the lock of a data folder, held while the file is open; None if it is taken."""
    # Child processes inherit it, so it is free only when the last of them has ended.
    file = os.fdopen(os.open(data / "lock", os.O_RDWR | os.O_CREAT, 0o600), "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def running_address(data: Path) -> str | None:
    """Return the address of the instance of this data folder, if its supervisor is alive."""
    with suppress(OSError, ValueError, KeyError):
        running = json.loads((data / "running.json").read_text())
        # Another program may have the id of a supervisor that was killed.
        if "config.local.up" not in Path(f"/proc/{running['pid']}/cmdline").read_text():
            return None
        return f"{running['url']}/ (process {running['pid']})"
    return None


def holders(file: Path) -> dict[int, str]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended, or belongs to another user
            if any(entry.resolve() == file for entry in (folder / "fd").iterdir()):
                words = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
                found[int(folder.name)] = words.strip()[:100]
    return found


def describe_holders(file: Path) -> str:
    found = holders(file)
    if not found:
        return f"Processes of another user hold {file}. End them, then try again."
    rows = "".join(f"  {pid}  {words}\n" for pid, words in sorted(found.items()))
    ids = " ".join(map(str, sorted(found)))
    return (
        f"These processes of an earlier Tenfour still hold {file}:\n{rows}"
        f"End them with: kill -QUIT {ids}\n"
        f"If some are still there after ten seconds: kill -KILL {ids}"
    )


@contextmanager
def programs_in_use(folder: Path = PROJECT) -> Iterator[int]:
    """Mark the programs in `folder` as in use; yield the descriptor that children inherit."""
    marker = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(marker, fcntl.LOCK_SH)
        yield marker
    finally:
        os.close(marker)


def refuse_used_programs(folder: Path = PROJECT) -> None:
    """Raise Refused while an instance runs from `folder`, wherever its data is."""
    marker = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(
            "Tenfour is running from this folder. Stop it first: Ctrl-C in the terminal of "
            f"'make up', or: kill -INT {supervisor_of(folder)}"
        ) from None
    finally:
        os.close(marker)


def supervisor_of(folder: Path) -> int:
    """Return the oldest process that holds the marker of `folder`."""
    own = os.getpid()
    return min((pid for pid in holders(folder) if pid != own), default=0)


def remove(data: Path) -> None:
    """Delete the data of an instance; raise Refused while it runs."""
    if data.is_dir():
        held = lock(data)
        if held is None:
            if running_address(data):
                raise Refused(
                    "Tenfour is running here. Stop it first: Ctrl-C in the terminal of 'make up'."
                )
            raise Refused(describe_holders(data / "lock"))
        held.close()
    shutil.rmtree(data, ignore_errors=True)
    shutil.rmtree(closed_home(data), ignore_errors=True)
    with suppress(OSError):
        CLOSED_HOMES.rmdir()  # only if this was the last one
