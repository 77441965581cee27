"""Installs a list of pinned packages into .venv, and nothing outside of this folder.

`python3 -m config.local.install LOCK` runs on a bare Python, before anything is installed.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
VENV = PROJECT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
NOTE = VENV / "installed.json"
RUNTIME = "requirements/server.lock"
EMBEDDED = "requirements/embedded.lock"
INSTALLER = "requirements/uv.lock"
CLIENT = "client/pyproject.toml"
# The client's folder becomes a path entry. The default, an import hook, is asked after all paths:
# a clone in a folder named tenfour would hide the package from scripts beside that folder.
CLIENT_MODE = "editable_mode=compat"

# the messages of pip and uv when they can't reach the package index
UNREACHABLE = re.compile("connection broken by|error sending request|Failed to (connect|fetch)")

# Caches stay in the folder too, and certificates are those that the machine trusts.
TOOL_ENVIRONMENT = {
    "PIP_NO_CACHE_DIR": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_WARN_SCRIPT_LOCATION": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "UV_CACHE_DIR": str(VENV / ".cache"),
    "UV_SYSTEM_CERTS": "1",
}


def digest(name: str) -> str:
    return hashlib.sha256((PROJECT / name).read_bytes()).hexdigest()


def pins(name: str) -> set[str]:
    lines = (PROJECT / name).read_text().splitlines()
    return {line.split()[0] for line in lines if line[:1].isalnum()}


def installed_lists(lock: str) -> dict[str, str]:
    """Return the digests of the lists that .venv satisfies once `lock` is installed."""
    contained = {name for name in (RUNTIME, EMBEDDED) if pins(name) <= pins(lock)}
    return {name: digest(name) for name in sorted(contained | {lock, CLIENT})} | place()


def place() -> dict[str, str]:
    return {"folder": str(PROJECT), "client": CLIENT_MODE}


def read_note() -> dict[str, Any]:
    return json.loads(NOTE.read_text()) if NOTE.exists() else {}


def is_current(lock: str) -> bool:
    wanted = {lock: digest(lock), CLIENT: digest(CLIENT)} | place()
    return sys.prefix == str(VENV) and wanted.items() <= read_note().items()


def run(*argv: str | Path) -> str:
    """Run a program; return what it printed if it failed, and nothing if it succeeded."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=PROJECT,
        env=os.environ | TOOL_ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if not done.returncode:
        return ""
    return done.stdout.strip() or f"{argv[0]} exited with {done.returncode}."


def make_venv() -> None:
    # A .venv that is broken or was made for another folder is made again.
    moved = read_note().get("folder", str(PROJECT)) != str(PROJECT)
    if not moved and PYTHON.exists() and not run(PYTHON, "-c", "import pip"):
        return
    base = getattr(sys, "_base_executable", sys.executable)
    if problem := run(base, "-m", "venv", "--clear", VENV):
        print(f"\n{problem}", file=sys.stderr)
        sys.exit("Python could not create a virtual environment (on Debian: install python3-venv).")


PIP: tuple[str | Path, ...] = (PYTHON, "-m", "pip", "install", "--quiet")


def install_packages(lock: str) -> str:
    """Install with uv or else with pip; return why that failed."""
    # uv comes first because it takes only seconds.
    pinned = ("--require-hashes", "-r", lock)
    if UV.exists() or not run(*PIP, "--require-hashes", "-r", INSTALLER):
        options = ("--quiet", "--python", PYTHON, "--compile-bytecode")
        if not run(UV, "pip", "install", *options, *pinned):
            return ""
    return run(*PIP, *pinned)


def install_client() -> str:
    # Installed from its source, the command is never older than the server.
    how = ("--no-build-isolation", "--no-deps", "--config-settings", CLIENT_MODE)
    return run(*PIP, *how, "--editable", "./client")


def describe_failure(lock: str, problem: str) -> str:
    # pip repeats the same warning when it is offline.
    if UNREACHABLE.search(problem):
        return (
            f"{lock} could not be installed: the package index can't be reached. Connect this "
            "machine to it, or name a copy in PIP_INDEX_URL or PIP_FIND_LINKS. Then try again."
        )
    return f"{problem}\n{lock} could not be installed: the lines above say why."


@contextmanager
def step(text: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"  {text} ...", end="", flush=True)
    yield
    print(f" {time.monotonic() - began:.0f} s", flush=True)


def main(lock: str) -> None:
    if is_current(lock):
        return
    print("Installing Tenfour into .venv (once, and after an update):", flush=True)
    with step("creating the virtual environment"):
        make_venv()
    NOTE.unlink(missing_ok=True)
    with step(f"installing {len(pins(lock))} packages from {lock}"):
        problem = install_packages(lock)
    if not problem:
        with step("installing the command `tenfour`"):
            problem = install_client()
    if problem:
        sys.exit(describe_failure(lock, problem))
    shutil.rmtree(VENV / ".cache", ignore_errors=True)
    NOTE.write_text(json.dumps(installed_lists(lock), indent=1) + "\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
