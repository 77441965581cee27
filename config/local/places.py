"""Where an instance keeps its files, and as whom its servers run: the data folder and its lock."""

import fcntl
import hashlib
import os
import pwd
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PROJECT = Path(__file__).resolve().parents[2]
CLOSED_HOMES = Path("/var/lib/tenfour")


class Refused(Exception):
    """Tenfour can't start here; the text is a sentence for whoever started it."""


# ---- whom the servers run as, and where


@dataclass(frozen=True)
class User:
    uid: int
    gid: int


@dataclass(frozen=True)
class Place:
    """Where one instance keeps its files, and whom its servers run as (None: whoever starts it)."""

    data: Path
    home: Path
    user: User | None

    def own(self, path: Path) -> Path:
        """Hands a file or folder to the user that the servers run as."""
        if self.user:
            os.chown(path, self.user.uid, self.user.gid)
        return path

    def folder(self, name: str) -> Path:
        """A folder of the servers below `home`, closed to everybody else."""
        path = self.home / name
        path.mkdir(mode=0o700, exist_ok=True)
        return self.own(path)


def unprivileged() -> User | None:
    """Whom the servers run as: Postgres refuses root, and Redis needs none of its rights."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return User(nobody.pw_uid, nobody.pw_gid)


def enterable(path: Path, user: User) -> bool:
    """Whether `user` gets into the folder `path`."""
    for folder in (path, *path.parents):
        known = folder.stat()
        mine = 6 if known.st_uid == user.uid else 3 if known.st_gid == user.gid else 0
        if not known.st_mode >> mine & 0o1:
            return False
    return True


def closed_home(data: Path) -> Path:
    """Where the servers live when they can't enter the folder of `data`."""
    return CLOSED_HOMES / hashlib.sha256(str(data).encode()).hexdigest()[:16]


def place_of(data: Path) -> Place:
    """Makes the data folder; raises Refused where that can't be done."""
    user = unprivileged()
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"The data folder {data} can't be made: {error.strerror}.") from None
    if data.stat().st_uid != os.geteuid():
        raise Refused(
            f"{data} belongs to another user. Start Tenfour as the user who did before, "
            "or give it another data folder: TENFOUR_DATA=FOLDER make up"
        )
    return Place(data, home_of(data, user), user)


def home_of(data: Path, user: User | None) -> Path:
    """Where the servers keep their data: `data`, or where they can't enter that, CLOSED_HOMES."""
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
    """A folder of ours, through which the user of the servers gets to its own and sees nothing."""
    path.mkdir(mode=0o700, exist_ok=True)
    if user:
        os.chown(path, os.geteuid(), user.gid)
    path.chmod(0o710 if user else 0o700)
    return path


def note_home(data: Path, home: Path) -> None:
    """Names `home` in the data folder; raises Refused if that names another that still exists."""
    note = data / "where"
    before = Path(note.read_text().strip()) if note.exists() else home
    if before != home and before.exists():
        raise Refused(
            f"The servers' data of this folder is in {before}, made when the folder had another "
            f"name. Move it to {home} or remove {note}, which starts anew."
        )
    write_private(note, f"{home}\n")


def write_private(path: Path, text: str) -> None:
    """Replaces `path` in one step with a file that only its owner can read."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)


# ---- one instance per data folder


def lock(data: Path) -> IO[str] | None:
    """The lock of a data folder, held while the file is open; None if another holds it.

    Children inherit it, so it is free only when the last of them is gone too.
    """
    file = os.fdopen(os.open(data / "lock", os.O_RDWR | os.O_CREAT, 0o600), "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def remove(data: Path) -> None:
    """Removes the data of an instance for good; raises Refused while it runs."""
    if data.is_dir():
        held = lock(data)
        if held is None:
            raise Refused("Tenfour is running here: stop it first (Ctrl-C where 'make up' runs).")
        held.close()
    shutil.rmtree(data, ignore_errors=True)
    shutil.rmtree(closed_home(data), ignore_errors=True)
    with suppress(OSError):
        CLOSED_HOMES.rmdir()  # only if this was the last one
