"""A streaming replica of the tests' database, from the embedded programs."""

import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from django.db import connections

from config.local.commands import Command, run_once
from config.local.embedded import Server, Servers, free_port
from tests.services import Throwaway, ours
from tests.serving import database_of_tests
from tests.waiting import PATIENCE_S

FOLLOWER, PASSWORD = "follower", secrets.token_hex(16)
# Also reads positions and pauses the replay, which takes a superuser.
ROLE = f"""do $$ begin if not exists (select from pg_roles where rolname = '{FOLLOWER}') then
create role {FOLLOWER} login superuser replication; end if; end $$;
alter role {FOLLOWER} password '{PASSWORD}';
"""


@dataclass
class Replica:
    """A running standby of the tests' PostgreSQL."""

    servers: Servers
    runs: Throwaway

    @property
    def url(self) -> str:
        parts = urlsplit(database_of_tests())
        host = f"{parts.username}:{parts.password}@127.0.0.1:{self.servers.postgres.port}"
        return urlunsplit(parts._replace(netloc=host))

    def ask(self, sql: str) -> Any:
        """Run a statement on the standby as its superuser; return the first value."""
        place = f"host=127.0.0.1 port={self.servers.postgres.port} dbname=postgres"
        with psycopg.connect(f"{place} user={FOLLOWER} password={PASSWORD}", autocommit=True) as db:
            row = db.execute(sql).fetchone()
            return row[0] if row else None

    def pause(self) -> None:
        """Stop the replay: from now on the replica falls behind."""
        self.ask("select pg_wal_replay_pause()")

    def resume(self) -> None:
        self.ask("select pg_wal_replay_resume()")

    def kill(self) -> None:
        self.runs.processes["postgres"].send_signal(signal.SIGKILL)
        self.runs.processes.pop("postgres").wait(timeout=PATIENCE_S)

    def start(self) -> None:
        self.runs.start("postgres")


@contextmanager
def replicate() -> Iterator[Replica]:
    """Start a standby of the tests' own PostgreSQL, and remove it afterwards."""
    primary = ours().servers
    connections.close_all()
    ours().stop("postgres")
    run_once(single_user(primary), ROLE.replace("\n", " ") + "\n")
    ours().start("postgres")
    place = primary.place
    home = place.folder("replica")
    servers = replace(
        primary,
        place=replace(place, data=place.data, home=home),
        postgres=Server(free_port(), primary.postgres.password),
    )
    back_up(primary, home / "pg")
    replica = Replica(servers, Throwaway(servers))
    replica.start()
    try:
        yield replica
    finally:
        with suppress(KeyError):
            replica.runs.stop_all()
        connections.close_all()
        shutil.rmtree(home)


def single_user(servers: Servers) -> Command:
    folder = str(servers.place.home / "pg")
    return servers.postgres_program("--single", "-j", "-D", folder, "postgres")


def back_up(primary: Servers, target: Path) -> None:
    """Copy the running cluster into a folder whose server will follow it."""
    program = primary.programs.postgres.with_name("pg_basebackup")
    place = ("-h", "127.0.0.1", "-p", str(primary.postgres.port), "-U", FOLLOWER)
    argv = [str(program), *place, "-D", str(target), "-R", "-X", "stream", "-c", "fast"]
    run_once(
        Command(
            argv,
            cwd=primary.place.home,
            env={"PATH": os.defpath, "PGPASSWORD": PASSWORD},
            user=primary.place.user,
        )
    )
