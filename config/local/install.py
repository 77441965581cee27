"""Makes .venv hold what a list of pinned packages says, and leaves nothing outside this folder.

`python3 -m config.local.install requirements.lock` runs on a bare Python, before any install.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
VENV = PROJECT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
NOTE = VENV / "installed.json"
RUNTIME = "requirements.lock"
CLIENT = "client/pyproject.toml"

# Caches stay in the folder too, and certificates are those that the machine trusts.
TIDY = {
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


def holds(lock: str) -> dict[str, str]:
    """What .venv holds with `lock` installed: that list, and the runtime's where it is a part."""
    locks = {lock, RUNTIME} if pins(RUNTIME) <= pins(lock) else {lock}
    return {name: digest(name) for name in sorted(locks | {CLIENT})} | {"folder": str(PROJECT)}


def noted() -> dict[str, Any]:
    return json.loads(NOTE.read_text()) if NOTE.exists() else {}


def is_current(lock: str) -> bool:
    """Whether .venv works, was made for this folder and holds all that `lock` asks for."""
    wanted = {lock: digest(lock), CLIENT: digest(CLIENT), "folder": str(PROJECT)}
    return sys.prefix == str(VENV) and wanted.items() <= noted().items()


def run(*argv: str | Path, quiet: bool = False) -> bool:
    out = subprocess.DEVNULL if quiet else None
    done = subprocess.run(
        [str(word) for word in argv], cwd=PROJECT, env=os.environ | TIDY, stdout=out, stderr=out
    )
    return done.returncode == 0


def make_venv() -> None:
    """Makes .venv, anew where it is broken or came here with a folder of another name."""
    moved = noted().get("folder", str(PROJECT)) != str(PROJECT)
    if not moved and PYTHON.exists() and run(PYTHON, "-c", "import pip", quiet=True):
        return
    base = getattr(sys, "_base_executable", sys.executable)
    if not run(base, "-m", "venv", "--clear", VENV):
        sys.exit("Python could not make a virtual environment (on Debian: install python3-venv).")


PIP: tuple[str | Path, ...] = (PYTHON, "-m", "pip", "install", "--quiet")


def install(lock: str) -> bool:
    """With uv, which takes seconds, or where that can't be had with pip from the same list."""
    pinned = ("--require-hashes", "-r", lock)
    if UV.exists() or run(*PIP, "uv", quiet=True):
        options = ("--quiet", "--python", PYTHON, "--compile-bytecode")
        if run(UV, "pip", "install", *options, *pinned):
            return True
    return run(*PIP, *pinned)


def install_client() -> bool:
    """The command `tenfour`, from its source, so that it is never older than the rest."""
    return run(*PIP, "--no-build-isolation", "--no-deps", "--editable", "./client")


def main(lock: str) -> None:
    if is_current(lock):
        return
    print(f"Installing {lock} into .venv ...", flush=True)
    make_venv()
    NOTE.unlink(missing_ok=True)
    if not (install(lock) and install_client()):
        sys.exit(f"{lock} could not be installed: the lines above say why.")
    shutil.rmtree(VENV / ".cache", ignore_errors=True)
    NOTE.write_text(json.dumps(holds(lock), indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
