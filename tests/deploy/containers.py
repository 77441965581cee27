"""Images and containers with podman, on a base from Debian's packages: no image registry is needed.

Images, the base, and the packages of the lock file are cached outside of the tree.
"""

import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.programs import MISSING, require_program
from tests.services import locked
from tests.serving import ROOT
from tests.waiting import PATIENCE_S

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenfour-images"
SUITE = "trixie"
# what an official image of Python has beyond Debian's smallest system, as far as it is used here
PACKAGES = "python3,python3-venv,python-is-python3"
LEFT_OUT = ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "usr/share/doc", "usr/share/man")
BUILD_S = 900
PRINT_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
# As Compose and Kubernetes start it. Without limits of its own, podman raises those of this process,
# which not every machine allows.
LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=10000:10000")
CONFINED = ("--read-only", "--read-only-tmpfs=false", "--tmpfs=/tmp", "--cap-drop=all")
OPTIONS = ("--runtime=runc", "--network=host", "--security-opt=no-new-privileges", *LIMITS)


class Podman:
    """podman with a store of its own, so that a person's images are left alone."""

    def __init__(self) -> None:
        self.program = require_program("podman")
        self.debootstrap = require_program("debootstrap")
        if os.geteuid():
            pytest.skip(f"{MISSING}: only root can make the base of the image.")
        CACHE.mkdir(parents=True, exist_ok=True)

    def call(
        self, *argv: str | Path, seconds: float = PATIENCE_S
    ) -> "subprocess.CompletedProcess[str]":
        store = ("--root", CACHE / "store", "--runroot", CACHE / "run")
        return subprocess.run(
            [self.program, *store, *argv], capture_output=True, text=True, timeout=seconds
        )

    def run(self, *argv: str | Path, seconds: float = PATIENCE_S) -> str:
        """Run a command of podman and return what it printed."""
        done = self.call(*argv, seconds=seconds)
        assert done.returncode == 0, f"{argv} exited with {done.returncode}\n{done.stderr}"
        return done.stdout.strip()

    def build(self, folder: Path) -> str:
        """Build the Dockerfile of a folder and return the image's id."""
        text = (folder / "Dockerfile").read_text()
        with locked(CACHE / "lock"):
            base = self.provide_base(base_name(text))
            packages = self.provide_packages(base)
            id_file = CACHE / f"id-{os.getpid()}"
            volumes = (f"{packages}:/packages:ro", f"{packages}/pip.conf:/etc/pip.conf:ro")
            self.run(
                "build",
                *("--isolation=chroot", "--format=docker", "--layers", "--pull=never"),
                *(f"--volume={each}" for each in volumes),
                *("--tag=localhost/tenfour-test", "--iidfile", id_file, folder),
                seconds=BUILD_S,
            )
            # those of the last days stay: their layers make the next build fast
            self.run("image", "prune", "--force", "--filter=until=168h")
        image = id_file.read_text()
        id_file.unlink()
        return image

    def provide_base(self, name: str) -> str:
        """Give the base the name that the Dockerfile expects; return a name that only the base has."""
        recipe = sha256(f"{SUITE} {PACKAGES} {LEFT_OUT}".encode()).hexdigest()[:12]
        known = f"localhost/tenfour-base:{recipe}"
        if known not in self.run("images", "--format={{.Repository}}:{{.Tag}}").split():
            self.import_base(known)
        self.run("tag", known, f"localhost/{name}")
        return known

    def import_base(self, name: str) -> None:
        folder, archive = CACHE / "base", CACHE / "base.tar"
        shutil.rmtree(folder, ignore_errors=True)
        what = ("--variant=minbase", f"--include={PACKAGES}", SUITE)
        subprocess.run(
            [self.debootstrap, *what, folder], check=True, timeout=BUILD_S, stdout=sys.stderr
        )
        less = [f"--exclude=./{each}" for each in LEFT_OUT]
        subprocess.run(["tar", "-C", folder, *less, "-cf", archive, "."], check=True)
        self.run("import", archive, name)
        shutil.rmtree(folder)
        archive.unlink()

    def provide_packages(self, base: str) -> Path:
        """Return a folder with the wheels of the server's lock and a configuration that uses it.

        pip outside of the build knows this machine's index, its certificates, and its cache.
        """
        # A wheel that only other systems need does no harm; the build's Python decides.
        text = re.sub(
            r" ; .* \\$", r" \\", (ROOT / "requirements/server.lock").read_text(), flags=re.M
        )
        version = self.run("run", "--rm", *OPTIONS, base, "python", "-c", PRINT_VERSION)
        folder = CACHE / f"packages-{version}-{sha256(text.encode()).hexdigest()[:12]}"
        if not folder.exists():
            for old in CACHE.glob("packages-*"):
                shutil.rmtree(old)
            fresh = CACHE / "packages.new"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            (fresh / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /packages\n")
            (fresh / "lock").write_text(text)
            what = ("--only-binary=:all:", f"--python-version={version}", "--no-deps")
            argv = [sys.executable, "-m", "pip", "download", "-qq", *what, "--require-hashes"]
            subprocess.run([*argv, "-r", fresh / "lock", "-d", fresh], check=True, timeout=BUILD_S)
            fresh.rename(folder)
        return folder

    def fail(self, *argv: str) -> str:
        """Run a container that must fail, and return what it printed."""
        done = self.call("run", "--rm", *OPTIONS, *CONFINED, *argv)
        assert done.returncode, done.stdout
        return done.stdout + done.stderr

    def size_of(self, image: str) -> int:
        return int(self.run("image", "inspect", "--format={{.Size}}", image))

    def start(self, name: str, *argv: str) -> "Container":
        """Start a container with these arguments of `podman run`."""
        self.run("run", "--detach", f"--name={name}", *OPTIONS, *CONFINED, *argv)
        return Container(self, name)

    def run_once(self, *argv: str) -> str:
        """Run a container to its end and return what it printed."""
        return self.run("run", "--rm", *OPTIONS, *CONFINED, *argv)


class Container:
    """A container that runs until it is stopped."""

    def __init__(self, podman: Podman, name: str) -> None:
        self.podman, self.name = podman, name

    def logs(self) -> str:
        done = self.podman.call("logs", self.name)
        return done.stdout + done.stderr

    def execute(self, *argv: str) -> str:
        return self.podman.run("exec", self.name, *argv)

    def fail(self, *argv: str) -> str:
        """Run a command in it that must fail, and return what it printed."""
        done = self.podman.call("exec", self.name, *argv)
        assert done.returncode, done.stdout
        return done.stdout + done.stderr

    def inspect(self) -> str:
        return self.podman.run("inspect", self.name)

    def is_healthy(self) -> bool:
        """Run the image's HEALTHCHECK."""
        return self.podman.call("healthcheck", "run", self.name).returncode == 0

    def stop(self) -> int:
        """Send SIGTERM, wait for the end, and return the exit status."""
        self.podman.run("stop", f"--time={PATIENCE_S}", self.name, seconds=2 * PATIENCE_S)
        return int(self.podman.run("wait", self.name))

    def remove(self) -> None:
        self.podman.call("rm", "--force", "--time=0", self.name)


def base_name(dockerfile: str) -> str:
    """Return the name of the image that the stages of a Dockerfile start from."""
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile, re.M))
    [name] = set(re.findall(r"^FROM (\S+)", dockerfile, re.M))
    return re.sub(r"\$\{(\w+)\}", lambda found: defaults[found[1]], name)
