"""Files of an export, which contain the output of programs: owner and group alone read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tenfour.commands.terminal import wrong_usage

FILE_MODE, FOLDER_MODE = 0o640, 0o750


def replace_file(path: Path, text: str) -> None:
    """Write a file in one step: a concurrent reader sees the old one or the new one, never a part.

    Raises wrong usage if it can't be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with refusing_unwritable(path):
        make_folder(path.parent)
        try:
            draft.unlink(missing_ok=True)
            write(draft, text.encode(), os.O_EXCL)
            draft.replace(path)
        except OSError:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise


def append_file(path: Path, data: bytes) -> None:
    """Add to a file, which stays the same one for a program that follows it."""
    with refusing_unwritable(path):
        make_folder(path.parent)
        write(path, data, os.O_APPEND)


def make_folder(folder: Path) -> None:
    """Create a folder with its parents."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=FOLDER_MODE, exist_ok=True)


def write(path: Path, data: bytes, flag: int) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | flag, FILE_MODE)
    with os.fdopen(opened, "wb") as file:
        os.fchmod(opened, FILE_MODE)  # whatever the umask is
        file.write(data)


@contextmanager
def refusing_unwritable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise wrong_usage(f"{path} can't be written: {error.strerror}.") from error
