"""Build the client's wheel: `python -m config.local.client_wheel FOLDER` prints its path.

It needs no network: the build backend, setuptools, is installed beside the server.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from config.local.install import PROJECT

SOURCE = PROJECT / "client"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
# A fixed time in the archive: the same source gives the same bytes.
SOURCE_DATE_EPOCH = "1767225600"


class WheelNotBuilt(Exception):
    """The client's wheel could not be built."""


def build_wheel(folder: Path) -> Path:
    """Build `tenfour-<version>-py3-none-any.whl` in `folder`, or raise WheelNotBuilt."""
    # The backend works on a copy, so that the source folder stays as it is.
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tenfour-wheel-") as draft:
        source, built = Path(draft, "client"), Path(draft, "wheel")
        ignored = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__")
        shutil.copytree(SOURCE, source, ignore=ignored)
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(built)],
            cwd=source,
            env=os.environ | {"SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH},
            capture_output=True,
            text=True,
        )
        wheels = list(built.glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            raise WheelNotBuilt(f"setuptools did not build the client: {done.stderr[-500:]}")
        # Under its final name only when it is whole: another process may read it meanwhile.
        path = folder / wheels[0].name
        partial = folder / f".{path.name}.{os.getpid()}"
        shutil.copyfile(wheels[0], partial)
        return partial.replace(path)


if __name__ == "__main__":
    print(build_wheel(Path(*sys.argv[1:])))
