"""Keep a library from files: a thread may read code and what comes with it, and nothing else.

apprise reads templates, keys and attachments from paths that an address names. The addresses are
checked; this guard holds for what a check may miss, such as a row from an earlier version.
"""

import mimetypes
import os
import sys
import sysconfig
import threading
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

CODE = (".py", ".pyc", ".so")
RUNNING = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"}


class ForbiddenFile(PermissionError):
    """A library has tried to open a file that is not a part of it.

    It is an OSError, so that the library treats it as a file that it can't open.
    """


class Guarded(threading.local):
    depth = 0


guarded = Guarded()


@contextmanager
def refuse_files() -> Iterator[None]:
    """Refuse to open files and to start programs in this thread."""
    install()
    list_folders()
    guarded.depth += 1
    try:
        yield
    finally:
        guarded.depth -= 1


@cache
def install() -> None:
    """Install the hook once; Python can't remove one, and outside guarded threads it is idle."""
    sys.addaudithook(check_event)


def check_event(event: str, args: Any) -> None:
    """Raise ForbiddenFile for a file or a program that a guarded thread must not use."""
    if not guarded.depth:
        return
    if event in RUNNING:
        raise ForbiddenFile("A channel starts no programs.")
    if event == "open" and not isinstance(args[0], int) and not is_readable(*args):
        raise ForbiddenFile("A channel reads and writes no files of the server.")


def is_readable(path: Any, mode: str | None, flags: int) -> bool:
    """Return whether a file is opened only to be read, and belongs to Python or a package."""
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return False
    real = os.path.realpath(os.fsdecode(path))
    return real.endswith(CODE) or real.startswith(list_folders()) or real in mimetypes.knownfiles


@cache
def list_folders() -> tuple[str, ...]:
    """Return the folders of Python, its packages and the time zones."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = {*map(sysconfig.get_path, names), *zoneinfo.TZPATH}
    return tuple(f"{Path(each).resolve()}{os.sep}" for each in found)
