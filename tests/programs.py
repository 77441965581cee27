"""Programs of the machine that some tests need; without one they skip, loudly, or fail in CI."""

import os
import shutil
import subprocess
from collections.abc import Iterable

import pytest

# the variable that says that the program must be there
REQUIRED_BY = {
    "promtool": "TENFOUR_REQUIRE_PROMTOOL",
    "nginx": "TENFOUR_REQUIRE_PROXIES",
    "pgbouncer": "TENFOUR_REQUIRE_PROXIES",
    "podman": "TENFOUR_REQUIRE_IMAGE",
    "debootstrap": "TENFOUR_REQUIRE_IMAGE",
}
PACKAGES = {"promtool": "prometheus"}
MISSING = "NO PROGRAM"


def require_program(name: str) -> str:
    """Return the program's path; skip the test without it, or fail where it must be there."""
    if found := shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
        return found
    reason = f"{MISSING}: {name} is not installed (Debian: {PACKAGES.get(name, name)})."
    if os.environ.get(REQUIRED_BY[name]) == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_pgbouncer() -> None:
    """Skip the test, or fail, without a PgBouncer that reads the configuration in `deploy/`."""
    program = require_program("pgbouncer")
    said = subprocess.run([program, "--version"], capture_output=True, check=True, text=True)
    version = said.stdout.split()[1]
    if tuple(map(int, version.split(".")[:2])) >= (1, 21):
        return
    reason = f"{MISSING}: pgbouncer is {version}, and 1.21 can prepare statements."
    if os.environ.get(REQUIRED_BY["pgbouncer"]) == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def describe_missing(skipped: Iterable[pytest.TestReport]) -> list[str]:
    """Return why tests were skipped that need a program, each reason with the number of tests."""
    reasons = [str(each.longrepr[2]) for each in skipped if isinstance(each.longrepr, tuple)]
    found = [each.removeprefix("Skipped: ") for each in reasons if MISSING in each]
    return [f"{reason} Skipped tests: {found.count(reason)}." for reason in sorted(set(found))]
