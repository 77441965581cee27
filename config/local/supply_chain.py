"""Lists the packages that the server installs, and asks whether any has a known vulnerability.

`python -m config.local.supply_chain` writes a list for each lock as CycloneDX JSON to build/, such
as build/sbom-embedded.json, and exits with 1 if a pinned package has an advisory. Where the
advisories can't be reached it says so and exits with 0: a check must also run on a machine without
the internet.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from config.local.places import PROJECT

# one list for the server alone, one with the servers of `make up`, and one with each extra; the
# tests' own packages are installed nowhere else
LOCKS = sorted(
    f"requirements/{path.name}"
    for path in PROJECT.glob("requirements/*.lock")
    if path.name != "tests.lock"
)
BUILD = PROJECT / "build"
AUDIT = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]


def run_tool(name: str, *argv: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name(name)
    return subprocess.run([program, *argv], cwd=PROJECT, capture_output=True, text=True)


def write_bill_of_materials(lock: str) -> Path:
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / f"sbom-{Path(lock).stem}.json"
    options = ["--pyproject", "pyproject.toml", "--output-reproducible", "-o", str(path)]
    done = run_tool("cyclonedx-py", "requirements", lock, *options)
    if done.returncode:
        raise SystemExit(f"cyclonedx-py failed: {done.stderr.strip()}")
    return path


def format_advisories(packages: list[dict[str, Any]]) -> list[str]:
    return [
        f"{package['name']} {package['version']}: {advisory['id']},"
        f" fixed in {', '.join(advisory['fix_versions']) or 'no release yet'}"
        for package in packages
        for advisory in package.get("vulns", [])
    ]


def audit_packages(*service: str) -> tuple[list[str], str]:
    """Return the advisories of all pinned packages, and why the audit was not complete if so.

    `service` holds options of pip-audit that choose where advisories are read.
    """
    locks = [word for lock in LOCKS for word in ("--requirement", lock)]
    done = run_tool("pip-audit", *locks, *AUDIT, *service)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        return [], (done.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1]
    skipped = [package for package in packages if "skip_reason" in package]
    reason = f"{len(skipped)} of {len(packages)} packages were not found there" if skipped else ""
    return format_advisories(packages), reason


def main(*service: str) -> int:
    for lock in LOCKS:
        path = write_bill_of_materials(lock)
        print(f"{path}: {len(json.loads(path.read_text())['components'])} packages")
    advisories, incomplete = audit_packages(*service)
    if incomplete:
        print(f"!!! The advisories were not read in full: {incomplete}.", file=sys.stderr)
    for line in advisories:
        print(line, file=sys.stderr)
    return 1 if advisories else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
