"""What Tenfour consists of, started in order, kept running and stopped in order."""

import asyncio
import os
import secrets
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from config.local import embedded
from config.local.commands import Command
from config.local.embedded import Servers
from config.local.places import PROJECT, Place, Refused, write_private
from config.local.processes import Process, Terminal, how_it_ended

STARTED = time.monotonic()


class Supervisor:
    """The processes of one Tenfour, from the first to the last of them."""

    def __init__(self, place: Place, door: socket.socket, lock: IO[str]) -> None:
        self.place, self.door, self.lock = place, door, lock
        self.terminal = Terminal()
        self.processes: dict[str, Process] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.wanted_down = asyncio.Event()
        self.gate, self.open_gate = os.pipe()
        self.url = url_of(door)
        self.env = dict(os.environ)
        self.servers: Servers | None = None

    # -- start

    async def start(self) -> None:
        """Brings everything up, each as soon as what it needs is there."""
        if not given_servers():
            self.servers = await asyncio.to_thread(embedded.servers_of, self.place)
        self.write_env()
        first = not (self.place.data / "credentials").exists()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.start_pages())
            group.create_task(self.start_facts(first))
        await self.first_answer()
        self.announce(first)

    async def start_facts(self, first: bool) -> None:
        """Servers, tables, the first login; then those who need them."""
        await self.start_servers()
        await self.once("migrate", python("manage.py", "migrate", "--skip-checks", "-v0"))
        if first:
            await self.once("first_run", python("manage.py", "first_run", "--skip-checks"))
        os.close(self.open_gate)
        self.keep("worker", replace(celery_worker(), env=self.env | {"TENFOUR_DB_POOL": "1"}))
        self.keep("beat", celery_beat())

    async def start_servers(self) -> None:
        if self.servers is None:
            return
        await asyncio.to_thread(self.servers.create)
        self.keep("postgres", self.servers.postgres_command())
        self.keep("redis", self.servers.redis_command())
        await self.until(embedded.postgres_answers, self.servers.postgres.port)
        await self.until(embedded.redis_answers, self.servers.redis.port)

    async def until(self, answers: Callable[[int], bool], port: int) -> None:
        while not await asyncio.to_thread(answers, port):
            await asyncio.sleep(0.02)

    async def start_pages(self) -> None:
        """The web server reads the list of static files when it starts."""
        collect = python("manage.py", "collectstatic", "--noinput", "--skip-checks", "-v0")
        await self.once("static", collect)
        self.keep("web", self.web())

    def web(self) -> Command:
        bind = {"TENFOUR_BIND": f"fd://{self.door.fileno()}", "TENFOUR_GATE": str(self.gate)}
        command = python(
            "-m", "gunicorn", "-c", "python:config.web_server", "config.wsgi:application"
        )
        return replace(command, env=self.env | bind, fds=(self.door.fileno(), self.gate))

    async def first_answer(self) -> None:
        while not await asks_well(self.url):
            await asyncio.sleep(0.05)

    async def once(self, name: str, command: Command) -> None:
        """Runs a short program; raises Refused when it fails."""
        code = await self.add(name, command).run()
        if code and not self.wanted_down.is_set():
            raise Refused(f"{name} {how_it_ended(code)}: its own words are above.")

    def keep(self, name: str, command: Command) -> None:
        process = self.add(name, command)
        self.tasks.append(asyncio.create_task(process.keep_running()))

    def add(self, name: str, command: Command) -> Process:
        # Whoever holds the lock file counts as this Tenfour: so do its children.
        fds = (*command.fds, self.lock.fileno())
        command = replace(command, env=command.env or self.env, fds=fds)
        self.processes[name] = Process(name, command, self.terminal)
        return self.processes[name]

    def write_env(self) -> None:
        """What the children and every later `manage.py` need to know, in one file."""
        values = {
            **(self.servers.urls if self.servers else {}),
            "TENFOUR_PORT": str(self.door.getsockname()[1]),
            "TENFOUR_LOCAL_URL": self.url,
        }
        if not given("TENFOUR_SECRET_KEY"):
            values["TENFOUR_SECRET_KEY"] = secret_key(self.place.data / "secret_key")
        lines = "".join(f"{name}={value}\n" for name, value in values.items())
        write_private(self.place.data / "env", lines)
        ours = {"TENFOUR_DATA": str(self.place.data), "DJANGO_SETTINGS_MODULE": "config.settings"}
        self.env |= values | ours | {"PYTHONUNBUFFERED": "1"}

    # -- what it says

    def announce(self, first: bool) -> None:
        seconds = time.monotonic() - STARTED
        self.terminal.say("tenfour", f"ready in {seconds:.1f} s: {self.url}/")
        credentials = self.place.data / "credentials"
        if not credentials.exists():
            hint = ".venv/bin/python manage.py token --kind agent --agent coder"
            self.terminal.say("tenfour", f"no credentials are kept here; make a token with: {hint}")
        elif first:
            self.terminal.say("tenfour", welcome(credentials, self.url))
        else:
            self.terminal.say("tenfour", f"credentials are in {shown(credentials)}")

    # -- stop

    async def run(self) -> int:
        """Runs until somebody wants it down or the start fails; returns the exit code."""
        loop = asyncio.get_running_loop()
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if sent != signal.SIGHUP or signal.getsignal(sent) != signal.SIG_IGN:  # nohup
                loop.add_signal_handler(sent, self.want_down)
        starting = asyncio.create_task(self.start())
        try:
            await asyncio.wait(
                {starting, asyncio.create_task(self.wanted_down.wait())},
                return_when=asyncio.FIRST_COMPLETED,
            )
            return await self.lasting(starting)
        finally:
            await self.stop()

    async def lasting(self, starting: asyncio.Task[None]) -> int:
        """Waits for the end, once everything has started; a failed start is the end."""
        if starting.done() and (error := starting.exception()):
            self.terminal.say("tenfour", reason(error))
            return 1
        await self.wanted_down.wait()
        starting.cancel()
        return 0

    def want_down(self) -> None:
        """The first Ctrl-C stops in order, the second kills."""
        if self.wanted_down.is_set():
            for process in self.processes.values():
                if process.is_alive():
                    process.kill()
        else:
            self.wanted_down.set()

    async def stop(self) -> None:
        """Who brings in work first, then who does it, then what it is kept in."""
        self.terminal.say("tenfour", "stopping")
        self.wanted_down.set()
        last = ["redis", "postgres"]
        first = [name for name in self.processes if name not in ["worker", *last]]
        for names in (first, ["worker"], last):
            found = (self.processes[name] for name in names if name in self.processes)
            await asyncio.gather(*(process.stop() for process in found))
        for task in self.tasks:
            task.cancel()
        (self.place.data / "running.json").unlink(missing_ok=True)
        self.terminal.say("tenfour", "stopped")
        self.terminal.close()


def python(*argv: str) -> Command:
    return Command([sys.executable, *argv])


def celery(*argv: str) -> Command:
    """Celery needs no goodbye from an orphan: what it did not finish is found again by a sweep."""
    quiet = "ignore:You're running the worker with superuser privileges"
    command = python("-W", quiet, "-m", "celery", "--quiet", "--skip-checks", "-A", "config", *argv)
    return replace(command, orphaned=signal.SIGKILL)


def celery_worker() -> Command:
    threads = os.environ.get("TENFOUR_WORKER_THREADS") or "4"
    return celery("worker", "-P", "threads", "-c", threads, "--without-gossip", "--without-mingle")


def celery_beat() -> Command:
    # The clock keeps its own record of last runs in the database; a file beside it would only age.
    return celery("beat", "--scheduler", "celery.beat:Scheduler", "--pidfile", "")


# ---- small questions


def given(name: str) -> bool:
    """Whether the environment names this setting, or a file that holds it."""
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def given_servers() -> bool:
    """Whether there are servers of one's own; raises Refused for one without the other."""
    names = ("DATABASE_URL", "REDIS_URL")
    found = [name for name in names if given(name)]
    if len(found) == 1:
        raise Refused(f"Only {found[0]} is set. Set both of {' and '.join(names)}, or neither.")
    return bool(found)


def secret_key(path: Path) -> str:
    """The key that signs cookies, made once."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(48) + "\n")
    return path.read_text().strip()


def url_of(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def asks_well(url: str) -> bool:
    """Whether /healthz answers, with 200."""
    where = urlsplit(url)
    request = f"GET /healthz HTTP/1.0\r\nHost: {where.netloc}\r\n\r\n"
    with suppress(OSError, TimeoutError, ValueError, IndexError):
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            writer.write(request.encode())
            status = (await reader.readline()).split()[1]
            writer.close()
            return status == b"200"
    return False


def welcome(credentials: Path, url: str) -> str:
    """Return what a newcomer needs, printed once: how to sign in and how to connect."""
    lines = (line for line in credentials.read_text().splitlines() if not line.startswith("#"))
    known = dict(line.split("=", 1) for line in lines if "=" in line)
    return f"""
Sign in at {url}/ as {known["TENFOUR_LOGIN"]} with the password {known["TENFOUR_PASSWORD"]}

In another terminal, in this folder:
  export PATH="$PWD/.venv/bin:$PATH" TENFOUR_URL={url}
  . {shlex.quote(shown(credentials))}

As a producer, send an instruction to the agent {known["TENFOUR_AGENT"]}:
  TENFOUR_TOKEN=$TENFOUR_PRODUCER_TOKEN tenfour send {known["TENFOUR_AGENT"]} "Say hello"

As the agent, receive it:
  TENFOUR_TOKEN=$TENFOUR_AGENT_TOKEN tenfour pull

The login and the tokens are in {shown(credentials)}. Ctrl-C stops Tenfour.
"""


def shown(path: Path) -> str:
    return str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else str(path)


def reason(error: BaseException) -> str:
    """The sentence of a refusal, or the name of what nobody foresaw."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
