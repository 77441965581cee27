"""Run the tests with the newest agents that there are, and print what changed in their hooks.

`make agents-latest` runs this. It installs the npm packages in a temporary folder, and exits with
the code of the tests. Other arguments are pytest's, such as `-k abort`.
"""

import argparse
import difflib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.agents.command_lines import AGENTS
from tests.agents.shapes import RECORDED, recorded

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
VERSIONS = Path(__file__).parent / "versions"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="record the pinned version's fields")
    given, chosen = parser.parse_known_args()
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="agents-", dir=BUILD) as folder:
        pinned = newest_pinned()
        packages = pinned if given.record else [name_of(each) + "@latest" for each in pinned]
        install(packages, folder)
        shapes = RECORDED if given.record else Path(folder, "shapes")
        chosen += ["-k", "tells_its_hooks"] if given.record else []
        code = run_tests(Path(folder, "node_modules/.bin"), shapes, chosen)
        if not given.record:
            for name in AGENTS:
                print_changes(name, shapes)
    return code


def newest_pinned() -> list[str]:
    """Return the packages of the newest version that CI runs."""
    lines = (line.split() for line in VERSIONS.read_text().splitlines())
    return next(packages for which, *packages in lines if which == "newest")


def name_of(package: str) -> str:
    """Return a package without its version.

    >>> name_of("@openai/codex@0.171.0")
    '@openai/codex'
    """
    return package.rpartition("@")[0]


def install(packages: list[str], folder: str) -> None:
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", "--prefix", folder, *options, *packages], check=True)


def run_tests(programs: Path, shapes: Path, chosen: list[str]) -> int:
    """Run the tests with these programs, which leave the fields of their events in a folder."""
    env = os.environ | {
        "TENFOUR_CLAUDE": str(programs / "claude"),
        "TENFOUR_CODEX": str(programs / "codex"),
        "TENFOUR_AGENT_SHAPES": str(shapes),
    }
    for name in AGENTS:
        subprocess.run([programs / name, "--version"], check=True)
    tests = [sys.executable, "-m", "pytest", "tests/agents", "-n", "auto", "--dist", "worksteal"]
    return subprocess.run([*tests, *chosen], env=env).returncode


def print_changes(name: str, shapes: Path) -> None:
    """Print the fields that are new in an agent's hook events, or that are gone."""
    if not (shapes / f"{name}.txt").exists():
        print(f"{name}: the events are not known, because the test that reads them failed.")
        return
    changes = [
        line
        for line in difflib.unified_diff(recorded(name), recorded(name, shapes), n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    print(f"{name}: {len(changes)} fields of its hook events differ from those recorded.")
    for line in changes:
        print(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
