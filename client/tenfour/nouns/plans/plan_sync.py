"""`tenfour plan sync`: merge what people changed in a plan's file, and tick what is done."""

from __future__ import annotations

import argparse
import difflib
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenfour.api.plans import media_of
from tenfour.client import Client
from tenfour.commands.display import clean
from tenfour.commands.terminal import NOTHING, OK, REFUSED, complain, note, say, wrong_usage
from tenfour.http.problems import TenfourError
from tenfour.models import ImportedPlan
from tenfour.nouns.bulk import add_yes, is_confirmed_on_terminal
from tenfour.nouns.plans import plan_commands

TRIES = 5  # while others save the file
EVERY_S = 5.0
TICKED = frozenset({"[x]", "☑"})


def add_sync_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the plan's file; only its boxes are written")
    plan_commands.add_reading_options(parser)
    parser.add_argument(
        "--proven", action="store_true", help="tick only proven tasks and those a person accepted"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--check", action="store_true", help="change nothing; exit with 3 if anything differs"
    )
    how.add_argument("--watch", action="store_true", help="sync after each change, until stopped")
    parser.add_argument(
        "--every",
        type=float,
        default=EVERY_S,
        metavar="SECONDS",
        help=f"how often --watch looks ({EVERY_S:g})",
    )
    add_yes(parser)


def sync(args: argparse.Namespace) -> int:
    """Merge the file and tick its boxes; print what changes first."""
    with Client(args.url) as tenfour:
        file = SyncedFile(tenfour, args)
        return file.watch() if args.watch else file.sync()


class SyncedFile:
    """A plan's file, and how to merge it."""

    def __init__(self, tenfour: Client, args: argparse.Namespace) -> None:
        self._tenfour = tenfour
        self._args = args
        # A link stays a link: its target is replaced.
        self._path = Path(args.file).resolve()
        self._ref = ""
        self._synced = b""
        self._options = plan_commands.read_options(args) | {
            "mode": "merge",
            "ticks": "proven" if args.proven else None,
        }

    def sync(self) -> int:
        """Sync once; return 3 if this is a check and anything differs."""
        for _ in range(TRIES):
            before = self._read()
            first = found = self._merge(before, dry_run=True)
            after = tick(before, found.lines)
            differs = after != before or not found.unchanged
            if after != before:
                # Also with its new ticks the file must merge, before it is written.
                found = self._merge(after, dry_run=True)
            if differs:
                for warning in dict.fromkeys((*first.warnings, *found.warnings)):
                    note(warning)
                self._show(found, before, after)
            if self._args.check:
                return NOTHING if differs else OK
            if differs and not (self._args.watch or self._is_confirmed()):
                return REFUSED
            if replace_file(self._path, before, after):
                self._merge(after)
                self._synced = after
                if not differs:
                    note("The file and the ledger agree.")
                return OK
            note("The file was saved meanwhile; reading it again.")
        raise TenfourError(f"{self._args.file} changes all the time: nothing was written.")

    def watch(self) -> int:
        """Sync whenever the file or a task of its plan has changed; never returns."""
        seen: object = None
        said = ""
        while True:
            try:
                tasks = self._tenfour.plans.get(self._ref).raw["tasks"] if self._ref else None
                if (now := (self._read(), tasks)) != seen:
                    seen = now
                    self.sync()
                    # What was saved or done meanwhile is not in here, so it is seen next.
                    seen, said = (self._synced, tasks), ""
            except TenfourError as error:
                if error.sentence != said:
                    said = error.sentence
                    complain(error)
            time.sleep(self._args.every)

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError as error:
            raise wrong_usage(f"{self._args.file} can't be read: {error.strerror}.") from error

    def _merge(self, data: bytes, *, dry_run: bool = False) -> ImportedPlan:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise wrong_usage(f"{self._args.file} is not UTF-8 text.") from error
        options = self._options | {"dry_run": dry_run or None}
        done = self._tenfour.plans.import_text(text, media=media_of(self._path), **options)
        self._ref = done.plan.ref if not dry_run else self._ref
        return done

    def _is_confirmed(self) -> bool:
        return is_confirmed_on_terminal(self._args, "Merge these changes and tick these boxes?")

    def _show(self, found: ImportedPlan, before: bytes, after: bytes) -> None:
        merged = plan_commands.changes(replace(found, preview=()))  # as lines, not as a tree
        for line in (*merged, *diff_of(self._args.file, before, after)):
            say(clean(line))
        for line in without_box(found):
            note(line)


def tick(before: bytes, lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the file with these boxes ticked, and every other byte as it is."""
    after = bytearray(before)
    boxes = [(line["box"], line["line"]) for line in lines if line["tick"]]
    for box, number in sorted(boxes, key=lambda pair: -pair[0]["offset"]):
        start, old = box["offset"], box["old"].encode()
        if bytes(after[start : start + len(old)]) != old or box["new"] not in TICKED:
            raise TenfourError(f"Line {number} has no box at byte {start}: nothing was written.")
        after[start : start + len(old)] = box["new"].encode()
    return bytes(after)


def diff_of(name: str, before: bytes, after: bytes) -> Iterator[str]:
    """Yield the lines of a unified diff, or nothing for the same bytes."""
    one, other = (data.decode().splitlines() for data in (before, after))
    return difflib.unified_diff(one, other, name, name, lineterm="", n=0)


def without_box(found: ImportedPlan) -> Iterator[str]:
    """Yield a sentence for each task that is done and has no box in the file."""
    done = {task.ref for task in found.tasks if task.state == "done"}
    if not found.lines and done:
        yield "This format has no boxes, so nothing in the file says what is done."
    for line in found.lines:
        if line["became"] == "task" and line["ref"] in done and not line["tick"]:
            steps = any(each["tick"] for each in found.lines if each["ref"] == line["ref"])
            if not line["box"] and not steps:
                yield f"{line['ref']} is done, but line {line['line']} has no box to tick."


# ---- writing


def replace_file(path: Path, before: bytes, after: bytes) -> bool:
    """Replace a file that still has the bytes that were read; return whether it had them."""
    if after == before:
        return path.read_bytes() == before
    with lock_folder(path.parent):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        draft = Path(name)
        try:
            now = path.stat()
            with open(handle, "wb") as file:
                file.write(after)
                file.flush()
                with suppress(OSError):  # another user's file: only root may give it back
                    os.fchown(handle, now.st_uid, now.st_gid)
                os.fchmod(handle, stat.S_IMODE(now.st_mode))
                os.fsync(handle)
            if path.read_bytes() != before:
                return False
            draft.replace(path)
            return True
        except OSError as error:
            raise TenfourError(f"{path} can't be written: {error.strerror}.") from error
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Let one sync at a time write in a folder."""
    import fcntl

    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
