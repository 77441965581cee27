"""Throwaway Postgres and Redis: a pytest plugin, named early enough to be there before settings.

`python -m tests.services -- COMMAND` runs any other program with them.
"""

import atexit
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from config.local import embedded, places
from config.local.commands import Command
from config.local.embedded import Servers
from config.local.places import PROJECT, Place

# What a terminal that talks to a running Tenfour may have set, and tests must not see.
KEPT = {"TENFOUR_CHROMIUM", "TENFOUR_REQUIRE_BROWSER"}


@dataclass
class Throwaway:
    """The two servers of this process; `processes` holds those that run at the moment."""

    servers: Servers
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, name: str) -> None:
        command, answers, port = self.known()[name]
        log = self.servers.place.home / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(command.argv, stdout=out, stderr=out, **command.options())
        self.processes[name] = process
        while not answers(port):
            if process.poll() is not None:
                sys.exit(f"{name} ended with {process.returncode}:\n{log.read_text()}")
            time.sleep(0.01)

    def stop(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process:
            process.send_signal(self.known()[name][0].stop)
            process.wait(timeout=20)

    def known(self) -> dict[str, tuple[Command, Callable[[int], bool], int]]:
        mine = self.servers
        return {
            "postgres": (mine.postgres_command(), embedded.postgres_answers, mine.postgres.port),
            "redis": (mine.redis_command(), embedded.redis_answers, mine.redis.port),
        }

    def remove(self) -> None:
        for name in list(self.processes):
            self.stop(name)
        for folder in {self.servers.place.data, self.servers.place.home}:
            shutil.rmtree(folder, ignore_errors=True)


running: Throwaway | None = None


def ours() -> Throwaway:
    assert running, "these tests run on servers that were given to them"
    return running


def restart_postgres() -> None:
    ours().stop("postgres")
    ours().start("postgres")


def stop_redis() -> None:
    ours().stop("redis")


def start_redis() -> None:
    ours().start("redis")


# ---- boot


def sweep(folder: Path) -> None:
    """Removes what earlier runs left that were killed."""
    for left in folder.glob("test-*"):
        with suppress(ValueError):
            if not Path(f"/proc/{int(left.name.removeprefix('test-'))}").exists():
                shutil.rmtree(left, ignore_errors=True)


def place_for_tests(outer: Place) -> Place:
    """A place inside the project's own, named after this process."""
    for folder in {outer.data, outer.home}:
        sweep(folder)
    name = f"test-{os.getpid()}"
    return Place(
        data=places.open_folder(outer.data / name, outer.user),
        home=places.open_folder(outer.home / name, outer.user),
        user=outer.user,
    )


def boot() -> None:
    """Starts both servers and tells settings of them."""
    global running
    outer = places.place_of(Path(os.environ.get("TENFOUR_DATA") or PROJECT / ".tenfour").resolve())
    place = place_for_tests(outer)
    running = Throwaway(embedded.throwaway_servers(place, embedded.binaries(outer)))
    atexit.register(running.remove)
    running.servers.create()
    for name in ("redis", "postgres"):
        running.start(name)
    tell(running.servers.urls, place.data)


def tell(urls: dict[str, str], data: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TENFOUR_") and name not in KEPT]:
        del os.environ[name]
    os.environ |= urls | {
        "TENFOUR_DATA": str(data),
        "TENFOUR_SECRET_KEY": secrets.token_urlsafe(48),
    }


def use_given() -> bool:
    """Whether TEST_DATABASE_URL and TEST_REDIS_URL name servers to test on."""
    urls = {name: os.environ.get(f"TEST_{name}", "") for name in ("DATABASE_URL", "REDIS_URL")}
    if not all(urls.values()):
        return False
    data = PROJECT / ".tenfour" / f"test-{os.getpid()}"
    data.mkdir(mode=0o700, parents=True)
    atexit.register(shutil.rmtree, data, ignore_errors=True)
    tell(urls, data)
    return True


def main(argv: list[str]) -> int:
    command = argv[1:] if argv[:1] == ["--"] else argv
    return subprocess.run(command, cwd=PROJECT, check=False).returncode


if "PYTEST_XDIST_WORKER" not in os.environ and not use_given():
    try:
        boot()
    except places.Refused as refusal:
        sys.exit(str(refusal))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
