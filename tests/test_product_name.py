"""The product has one name: no file, path or commit-able text carries the one it had before."""

import re
import subprocess

from tests.serving import ROOT

# Written so that this file does not contain it.
FORMER = "he" + "ed"
# The list of words that contributors avoid may name it.
ALLOWED = {"docs/style.md"}


def tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_carries_the_former_name() -> None:
    former = re.compile(FORMER.encode(), re.I)
    files = tracked()
    assert len(files) > 300
    found = [
        name
        for name in files
        if name not in ALLOWED
        and (former.search((ROOT / name).read_bytes()) or former.search(name.encode()))
    ]
    assert found == []
