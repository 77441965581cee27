"""Remember on which files checks passed: one that then fails on them gives two results."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tenfour.setup.connections import state_folder, write_private

if TYPE_CHECKING:
    from tenfour.checks.verification import Verified

# The files of the oldest passes go first.
MOST_KEPT = 500


def note_pass(found: Verified, environ: Mapping[str, str]) -> None:
    """Note that a check passed on the files that it left, if these are known."""
    path = _file_of(found, environ)
    if path is None:
        return
    with suppress(OSError):
        write_private(path, "")
        names = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime)
        for each in names[:-MOST_KEPT]:
            each.unlink(missing_ok=True)


def has_passed(found: Verified, environ: Mapping[str, str]) -> bool:
    """Return whether the same check has passed on the same files."""
    path = _file_of(found, environ)
    return path is not None and path.exists()


def _file_of(found: Verified, environ: Mapping[str, str]) -> Path | None:
    if found.tree is None:
        return None
    check, tree = found.check, found.tree
    facts = [check.command, os.path.abspath(check.cwd or ""), check.expect_exit]
    text = json.dumps([*facts, tree["commit"], tree["diff"]])
    return state_folder(environ) / "passed" / sha256(text.encode()).hexdigest()
