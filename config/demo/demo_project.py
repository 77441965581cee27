"""The demo's project and its agents as processes, which end with the demo."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection
from tenfour import Client, TenfourError
from tenfour.api import calls

from ledger import agents, tokens
from ledger.database.sql import drop_interrupted_connection
from ledger.journal import Actor, Stamp
from ledger.models import Project, Token

DEMO = Actor("system", "demo", "demo")
PROJECT = "demo"
EXAMPLES = Path(settings.BASE_DIR) / "examples"
CLIENT_DIR = Path(settings.BASE_DIR) / "client"
START_FIRST = "No Tenfour is running here. Start it in another terminal: make up"

Player = subprocess.Popen[bytes]


@dataclass
class Stage:
    """The demo's server and project; `tenfour` calls the server with an orchestrator's token."""

    url: str
    project: Project
    tenfour: Client
    players: list[Player] = field(default_factory=list)

    def play(self, name: str, script: str, *options: str) -> Player:
        # Its environment has the URL, its token and little else.
        agent = agents.register(name, project=self.project, stamp=Stamp(DEMO))
        _, secret = tokens.issue("agent", project=self.project, agent=agent, stamp=Stamp(DEMO))
        kept = ("PATH", "HOME", "LANG")
        mine = {name: os.environ[name] for name in kept if name in os.environ}
        player = subprocess.Popen(
            [sys.executable, EXAMPLES / script, name, *options, "--with-parent"],
            env=mine
            | {"TENFOUR_URL": self.url, "TENFOUR_TOKEN": secret, "PYTHONPATH": str(CLIENT_DIR)},
            # Only this process holds it open: at its end, stdin closes and the agent ends.
            stdin=subprocess.PIPE,
            start_new_session=True,  # so that its programs can be ended with it
        )
        self.players.append(player)
        return player


@contextmanager
def run_stage(url: str) -> Iterator[Stage]:
    project, _ = Project.objects.get_or_create(name=PROJECT)
    revoke_all(project)
    _, secret = tokens.issue("orchestrator", project=project, name="demo", stamp=Stamp(DEMO))
    with Client(url, secret) as tenfour:
        stage = Stage(url, project, tenfour)
        try:
            yield stage
        finally:
            stop(stage.players)
            drop_interrupted_connection()
            revoke_all(project)


def end(player: Player, how: signal.Signals) -> None:
    if player.poll() is None:
        os.killpg(player.pid, how)


def stop(players: list[Player]) -> None:
    for player in players:
        end(player, signal.SIGTERM)
    for player in players:
        try:
            player.wait(timeout=5)
        except subprocess.TimeoutExpired:
            end(player, signal.SIGKILL)
            player.wait()
        if player.stdin:
            player.stdin.close()


def revoke_all(project: Project) -> None:
    for token in Token.objects.filter(project=project, created_by=DEMO.name, revoked_at=None):
        tokens.revoke(token, stamp=Stamp(DEMO))


def running_at(url: str | None) -> str:
    """Return the address where Tenfour responds; raises CommandError if it does not."""
    url = url or local_url()
    if not url:
        raise CommandError(START_FIRST)
    try:
        # /healthz needs no token, so any text will do.
        with Client(url, "none", retries=0, timeout=30) as tenfour:
            tenfour.perform(calls.health())
            return tenfour.settings.url
    except TenfourError as error:
        raise CommandError(f"{error.sentence} {START_FIRST}") from error


def local_url() -> str:
    """Return the address of the running `make up`, or the address in the environment."""
    if settings.TENFOUR_URL:
        return str(settings.TENFOUR_URL)
    try:
        running = json.loads((Path(settings.DATA_DIR) / "running.json").read_text())
        return str(running["url"])
    except (OSError, ValueError, KeyError):
        return os.environ.get("TENFOUR_LOCAL_URL", "")


@contextmanager
def refuse_second_demo() -> Iterator[None]:
    # Two demos would run each other's idle checks.
    own = connection.copy()  # an interrupt of the demo's statements must not end the lock
    try:
        with own.cursor() as cursor:
            cursor.execute("select pg_try_advisory_lock(hashtext('tenfour demo'))")
            if not cursor.fetchone()[0]:
                raise CommandError("A demo is running already. Stop it with Ctrl-C.")
        yield
    finally:
        own.close()
