"""The processes of an instance: started in order, restarted, stopped in order."""

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
from urllib.parse import urlsplit

from config.local import embedded, unprivileged
from config.local.commands import START_ERRORS, Command, describe_start_error
from config.local.embedded import Servers
from config.local.places import PROJECT, Place, Refused, User, url_of, write_private
from config.local.processes import Process, Terminal, how_it_ended

STARTED = time.monotonic()


class Supervisor:
    """All processes of one instance."""

    def __init__(self, place: Place, listener: socket.socket, locks: tuple[int, ...]) -> None:
        self.place, self.listener, self.locks = place, listener, locks
        self.terminal = Terminal()
        self.processes: dict[str, Process] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.stop_requested = asyncio.Event()
        self.gate, self.open_gate = os.pipe()
        self.url = url_of(listener)
        self.env = dict(os.environ)
        self.servers: Servers | None = None
        self.user: User | None = None
        self.own_env: dict[str, str] = {}

    # -- start

    async def start(self) -> None:
        if not has_external_servers():
            self.servers = await asyncio.to_thread(embedded.servers_of, self.place)
        await asyncio.to_thread(self.choose_account)
        self.write_env()
        first = not (self.place.data / "credentials").exists()
        async with asyncio.TaskGroup() as group:
            if self.user:
                group.create_task(asyncio.to_thread(unprivileged.compile_code))
            group.create_task(self.start_pages())
            group.create_task(self.start_facts(first))
        await self.first_response()
        self.announce(first)

    def choose_account(self) -> None:
        account = unprivileged.choose_account(self.place)
        for warning in account.warnings:
            self.terminal.say("tenfour", warning)
        self.user = account.user
        if self.user:
            # Only sockets of one owner may share a port.
            os.fchown(self.listener.fileno(), self.user.uid, self.user.gid)
            unprivileged.prepare_folders(self.place)
            self.own_env = unprivileged.list_variables(self.place, self.env)

    async def start_facts(self, first: bool) -> None:
        await self.start_servers()
        migrate = python("manage.py", "migrate", "--skip-checks", "-v0")
        await self.run_step("migrate", self.own(migrate))
        if first:  # the user who started it owns the credentials
            await self.run_step("first_run", python("manage.py", "first_run", "--skip-checks"))
        os.close(self.open_gate)
        self.keep("worker", self.own(celery_worker()))
        self.keep("beat", self.own(celery_beat()))

    def own(self, command: Command, **env: str) -> Command:
        return replace(command, env=self.env | self.own_env | env, user=self.user)

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
        # The web server reads the list of static files at its start, so they are collected first.
        collect = python("manage.py", "collectstatic", "--noinput", "--skip-checks", "-v0")
        await self.run_step("static", self.own(collect))
        self.keep("web", self.web())

    def web(self) -> Command:
        bind = {"TENFOUR_BIND": f"fd://{self.listener.fileno()}", "TENFOUR_GATE": str(self.gate)}
        fds = (self.listener.fileno(), self.gate)
        return replace(self.own(python("-m", "config.web_server"), **bind), fds=fds)

    async def first_response(self) -> None:
        while not await responds(self.url):
            await asyncio.sleep(0.05)

    async def run_step(self, name: str, command: Command) -> None:
        try:
            code = await self.add(name, command).run()
        except START_ERRORS as error:
            raise Refused(f"{name} {describe_start_error(error)}.") from None
        if code and not self.stop_requested.is_set():
            raise Refused(f"{name} {how_it_ended(code)}. Its output is above.")

    def keep(self, name: str, command: Command) -> None:
        process = self.add(name, command)
        self.tasks.append(asyncio.create_task(process.keep_running()))

    def add(self, name: str, command: Command) -> Process:
        # Children hold the lock files too, so that the instance counts as running until they end.
        fds = (*command.fds, *self.locks)
        command = replace(command, env=command.env or self.env, fds=fds)
        self.processes[name] = Process(name, command, self.terminal)
        return self.processes[name]

    def write_env(self) -> None:
        # The children and every later `manage.py` read these settings from one file.
        values = {
            **(self.servers.urls if self.servers else {}),
            "TENFOUR_PORT": str(self.listener.getsockname()[1]),
            "TENFOUR_LOCAL_URL": self.url,
        }
        if self.user and self.place.home != self.place.data and not is_set("TENFOUR_ARCHIVE"):
            values["TENFOUR_ARCHIVE"] = str(self.place.home / "archive")
        if not is_set("TENFOUR_SECRET_KEY"):
            values["TENFOUR_SECRET_KEY"] = secret_key(self.place.data / "secret_key")
        lines = "".join(f"{name}={value}\n" for name, value in values.items())
        write_private(self.place.data / "env", lines)
        ours = {"TENFOUR_DATA": str(self.place.data), "DJANGO_SETTINGS_MODULE": "config.settings"}
        self.env |= values | ours | {"PYTHONUNBUFFERED": "1"}

    # -- messages

    def announce(self, first: bool) -> None:
        seconds = time.monotonic() - STARTED
        self.terminal.say("tenfour", f"ready in {seconds:.1f} s: {self.url}/")
        credentials = self.place.data / "credentials"
        if not credentials.exists():
            hint = ".venv/bin/python manage.py token --kind agent --agent coder"
            place = f"make a token at {self.url}/agents/connect/ or with: {hint}"
            self.terminal.say("tenfour", f"there is no credentials file; {place}")
        else:
            shows_password = first and self.terminal.is_terminal
            self.terminal.say("tenfour", welcome(credentials, self.url, shows_password))

    # -- stop

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if sent != signal.SIGHUP or signal.getsignal(sent) != signal.SIG_IGN:  # nohup
                loop.add_signal_handler(sent, self.request_stop)
        starting = asyncio.create_task(self.start())
        try:
            await asyncio.wait(
                {starting, asyncio.create_task(self.stop_requested.wait())},
                return_when=asyncio.FIRST_COMPLETED,
            )
            return await self.wait_for_signal(starting)
        finally:
            await self.stop()

    async def wait_for_signal(self, starting: asyncio.Task[None]) -> int:
        # A failed start ends the wait at once.
        if starting.done() and (error := starting.exception()):
            self.terminal.say("tenfour", describe_error(error))
            return 1
        await self.stop_requested.wait()
        starting.cancel()
        return 0

    def request_stop(self) -> None:
        # The first Ctrl-C stops in order, the second kills.
        if self.stop_requested.is_set():
            for process in self.processes.values():
                if process.is_alive():
                    process.kill()
        else:
            self.stop_requested.set()

    async def stop(self) -> None:
        self.terminal.say("tenfour", "stopping")
        self.stop_requested.set()
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


def supervise(place: Place, listener: socket.socket, locks: tuple[int, ...]) -> int:
    async def run() -> int:
        return await Supervisor(place, listener, locks).run()

    return asyncio.run(run())


def python(*argv: str) -> Command:
    return Command([sys.executable, *argv])


def celery(name: str) -> Command:
    # An orphan is killed, because sweeps redo its work.
    return replace(python("-m", "config.celery_processes", name), orphaned=signal.SIGKILL)


def celery_worker() -> Command:
    return celery("worker")


def celery_beat() -> Command:
    return celery("beat")


# ---- environment and addresses


def is_set(name: str) -> bool:
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def has_external_servers() -> bool:
    """Return whether external servers are configured; raises Refused for one without the other."""
    names = ("DATABASE_URL", "REDIS_URL")
    found = [name for name in names if is_set(name)]
    if len(found) == 1:
        raise Refused(f"Only {found[0]} is set. Set both of {' and '.join(names)}, or neither.")
    return bool(found)


def secret_key(path: Path) -> str:
    if not path.exists():
        write_private(path, secrets.token_urlsafe(48) + "\n")
    return path.read_text().strip()


async def responds(url: str) -> bool:
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


def welcome(credentials: Path, url: str, shows_password: bool) -> str:
    # The password is only for a terminal: where output is collected, many people read it. After the
    # first start, the person may have changed it.
    lines = (line for line in credentials.read_text().splitlines() if not line.startswith("#"))
    known = dict(line.split("=", 1) for line in lines if "=" in line)
    if not {"TENFOUR_LOGIN", "TENFOUR_PASSWORD", "TENFOUR_AGENT"} <= known.keys():
        return f"credentials are in {shown(credentials)}"  # a person has edited the file
    secret = known["TENFOUR_PASSWORD"] if shows_password else f"in {shown(credentials)}"
    return f"""
Sign in at {url}/ as {known["TENFOUR_LOGIN"]} with the password {secret}

Connect Claude Code, Codex, or your own agent: {url}/agents/connect/

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


def describe_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
