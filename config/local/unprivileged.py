"""Run the web server, the worker and the clock without root's rights if root starts them."""

import compileall
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from config.environment import read_text
from config.local.commands import START_ERRORS, Command
from config.local.places import PROJECT, Place, User
from config.setting_table import SETTINGS

# Reads a file of each kind that the processes need, without loading what takes seconds.
TRIAL = """
from importlib.util import find_spec
from config.local.places import PROJECT
for name in ("celery", "django", "granian", "retries"):
    open(find_spec(name).origin).close()
open(PROJECT / "templates" / "agent_guide.md").close()
"""
WRITABLE = "import os, sys; sys.exit(not os.access(sys.argv[1], os.W_OK))"
CODE = ("config", "dashboard", "ledger", "retries")
SECRETS = {each.variable for each in SETTINGS.values() if each.is_secret}


@dataclass(frozen=True)
class Account:
    """The user of the processes (None: the user who starts them), and what the start must say."""

    user: User | None
    warnings: tuple[str, ...] = ()


def choose_account(place: Place) -> Account:
    if place.user is None:
        return Account(None)
    problem = try_python(place.user, TRIAL)
    if problem:
        return Account(None, (describe_root(place.user, problem),))
    named = read_text("ARCHIVE")
    if named and try_python(place.user, WRITABLE, named):
        owner = f"{place.user.uid}:{place.user.gid}"
        warning = f"WARNING: the archive can't be written. Run: chown -R {owner} {named}"
        return Account(place.user, (warning,))
    return Account(place.user)


def try_python(user: User, code: str, *argv: str) -> str:
    """Run code as another user; return the last line of its error, or nothing."""
    command = Command([sys.executable, "-c", code, *argv], user=user)
    try:
        done = subprocess.run(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **command.options(),
        )
    except START_ERRORS as error:
        return f"{sys.executable}: {getattr(error, 'strerror', None) or error}"
    lines = done.stderr.strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else ""


def describe_root(user: User, problem: str) -> str:
    return (
        "WARNING: the web server, the worker and the clock run as ROOT, because the user "
        f"{user.uid} can't run Tenfour here ({problem}). A flaw in them would give away the whole "
        f"machine. Start Tenfour as another user, or move {PROJECT} and Python to where every "
        "user can read them, such as /srv."
    )


def prepare_folders(place: Place) -> None:
    # The processes may have written these files as root before.
    old, new = place.data / "archive", place.home / "archive"
    if old.exists() and not new.exists():
        shutil.move(old, new)
    for name in ("static", "archive", "run"):
        place.folder(name)
        place.adopt(name)


def list_variables(place: Place, env: dict[str, str]) -> dict[str, str]:
    # Processes of another user can't read root's files.
    changed = {
        "TENFOUR_DATA": str(place.home),
        "TMPDIR": str(place.home / "run"),
        "HOME": str(place.home / "run"),
    }
    for name in SECRETS:
        if file := env.get(f"{name}_FILE"):
            changed |= {name: Path(file).read_text().strip(), f"{name}_FILE": ""}
    return changed


def compile_code() -> None:
    # The processes can't store what they compile.
    if not sys.dont_write_bytecode:
        for name in CODE:
            compileall.compile_dir(PROJECT / name, quiet=2)
