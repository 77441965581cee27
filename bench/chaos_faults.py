"""The instance under attack, and what is done to it."""

import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.servers import wait_until
from config.local.embedded import free_port
from config.local.places import PROJECT

START_S = 180
# An instance keeps bytecode, as `make up` does.
NOT_INHERITED = ("DATABASE_URL", "REDIS_URL", "PYTHONDONTWRITEBYTECODE")
STALL_S = 3
CLOCK_SHIFT = "1 hour"


@dataclass
class Instance:
    """One `make up` on a data folder of its own."""

    data: Path
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def env(self) -> dict[str, str]:
        inherited = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith("TENFOUR_") and name not in NOT_INHERITED
        }
        return inherited | {
            "TENFOUR_DATA": str(self.data),
            "TENFOUR_PORT": str(self.port),
            "PYTHONPYCACHEPREFIX": str(self.data.with_name("bytecode")),
        }

    @property
    def log(self) -> Path:
        return self.data.with_name("chaos.log")

    def start(self) -> None:
        """Start the supervisor, and wait until it serves."""
        self.port = self.port or free_port()
        with self.log.open("ab") as log:
            argv = [sys.executable, "-m", "config.local.up"]
            self.process = subprocess.Popen(argv, cwd=PROJECT, env=self.env, stdout=log, stderr=log)
        wait_until(self.is_ready, "the instance", seconds=START_S)

    def is_ready(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self.port}/readyz"
            with urllib.request.urlopen(url, timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def manage(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        """Run manage.py on the instance's data."""
        return subprocess.run(
            [sys.executable, "manage.py", *argv],
            cwd=PROJECT,
            env=self.env,
            capture_output=True,
            text=True,
        )

    def make_token(self, *argv: str) -> str:
        done = self.manage("token", *argv)
        if done.returncode:
            raise RuntimeError(f"no token: {done.stderr}")
        return done.stdout.split()[-1]

    @property
    def database_url(self) -> str:
        lines = (self.data / "env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)["DATABASE_URL"]

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement on the instance's database."""
        with psycopg.connect(self.database_url, autocommit=True, connect_timeout=5) as conn:
            cursor = conn.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def find_processes(self, *words: str) -> list[int]:
        """Return the processes below the supervisor whose command contains all words."""
        assert self.process
        parents = {pid: read_parent(pid) for pid in list_pids()}
        found = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        found.discard(self.process.pid)
        return sorted(pid for pid in found if all(word in read_command(pid) for word in words))

    def find_web_server(self) -> list[int]:
        """Return the web server's main process and then those that serve, in random order."""
        assert self.process
        found = self.find_processes("config.web_server")
        parents = {pid: read_parent(pid) for pid in found}
        mains = [pid for pid in found if parents[pid] == self.process.pid]
        serving = [pid for pid in found if parents[pid] in mains]
        random.shuffle(serving)
        return [*mains, *serving]

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)


def list_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def read_parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


# ---- faults


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_web(instance: Instance) -> None:
    """Kill the web server's main process."""
    kill(instance.find_web_server()[:1])


def kill_web_worker(instance: Instance) -> None:
    """Kill one process that serves requests."""
    wait_until(lambda: instance.find_web_server()[1:], "a process that serves", seconds=START_S)
    kill(instance.find_web_server()[1:2])


def kill_worker(instance: Instance) -> None:
    kill(instance.find_processes("celery", "worker"))


def kill_beat(instance: Instance) -> None:
    kill(instance.find_processes("celery", "beat"))


def kill_redis(instance: Instance) -> None:
    kill(instance.find_processes("valkey-server"))


def kill_backend(instance: Instance) -> None:
    """Kill one connection's process, after which PostgreSQL ends them all and recovers."""
    clients = instance.find_processes("postgres:", "127.0.0.1(")
    kill(random.sample(clients, 1) if clients else [])


def kill_postmaster(instance: Instance) -> None:
    kill(instance.find_processes("postgres", "-D"))


def kill_everything(instance: Instance) -> None:
    """Kill the supervisor, which ends all its processes, and start it again."""
    assert instance.process
    instance.process.kill()
    instance.process.wait()
    instance.start()


def stall_web(instance: Instance) -> None:
    stall(instance.find_web_server()[1:2])


def stall_worker(instance: Instance) -> None:
    stall(instance.find_processes("celery", "worker"))


def stall_beat(instance: Instance) -> None:
    stall(instance.find_processes("celery", "beat"))


def stall_redis(instance: Instance) -> None:
    stall(instance.find_processes("valkey-server"))


def stall_postgres(instance: Instance) -> None:
    stall(instance.find_processes("postgres"))


def stall_supervisor(instance: Instance) -> None:
    assert instance.process
    stall([instance.process.pid])


def stall(pids: list[int]) -> None:
    """Stop processes for a few seconds, as a machine that swaps does."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    time.sleep(STALL_S)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def set_clock_back(instance: Instance) -> None:
    """Leave what a clock leaves behind that is set back: marks of sweeps that lie ahead."""
    instance.query(f"update ledger_clockrun set last_run_at = now() + interval '{CLOCK_SHIFT}'")


def set_clock_forward(instance: Instance) -> None:
    """Leave what a clock leaves behind that is set forward: every mark and lease lies back."""
    instance.query(
        f"""with moved as (
            update ledger_clockrun set last_run_at = last_run_at - interval '{CLOCK_SHIFT}'
        )
        update ledger_attempt set lease_expires_at = lease_expires_at - interval '{CLOCK_SHIFT}'
        where ended_at is null"""
    )


def fill_disk(instance: Instance) -> None:
    """Fill the disk of the data folder for a few seconds."""
    filler = instance.data / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 20)):
            pass
    time.sleep(STALL_S)
    filler.unlink()


Fault = Callable[[Instance], None]
# Outages of these have a limit on a quiet machine.
SINGLE: dict[str, Fault] = {
    "web": kill_web,
    "web worker": kill_web_worker,
    "worker": kill_worker,
    "beat": kill_beat,
    "backend": kill_backend,
    "postmaster": kill_postmaster,
}
WHOLE: dict[str, Fault] = {"everything": kill_everything}
KILLS: dict[str, Fault] = {**SINGLE, **WHOLE, "redis": kill_redis}
OTHER: dict[str, Fault] = {
    "stalled web": stall_web,
    "stalled worker": stall_worker,
    "stalled beat": stall_beat,
    "stalled redis": stall_redis,
    "stalled postgres": stall_postgres,
    "stalled supervisor": stall_supervisor,
    "clock set back": set_clock_back,
    "clock set forward": set_clock_forward,
}


@contextmanager
def mount_small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """Mount a disk that can be filled; yield False where only root may."""
    folder.mkdir(mode=0o755)
    argv = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and not subprocess.run(argv, capture_output=True).returncode
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
