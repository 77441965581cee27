"""`manage.py demo`: three agents, a dozen instructions and a fast clock, against a running Heed."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from heed import Client, HeedError, Instruction, calls

from ledger import agents, tokens
from ledger.journal import Actor
from ledger.models import Agent, Project, Token
from ledger.models import Instruction as Sent
from retries.models import Escalation
from retries.reminders import Reminded, retry_unacknowledged

DEMO = Actor("system", "demo", "demo")
PROJECT = "demo"
NAMES = ("steady", "picky", "deaf")
AGENTS_PY = Path(settings.BASE_DIR) / "examples" / "agents.py"
CLIENT_DIR = Path(settings.BASE_DIR) / "client"

# Twelve times as fast as the real clock; an agent has the time to answer in between.
TICK_S = 5.0
MIN_AGE = timedelta(seconds=2)
PULL_S = 0.8
# After this long everything is settled and a longer demo begins again.
ROUND_S = 50.0
START_FIRST = "No Heed runs here. Start it first, in another terminal: make up"


@dataclass(frozen=True)
class Plan:
    """An instruction of the demo: to whom, when, and the command that it asks for."""

    at_s: float
    agent: str
    line: str
    max_retries: int = 3
    priority: bool = False
    on_failed: Literal["record", "escalate"] = "record"

    @property
    def content(self) -> str:
        return f"Run `{self.line}` and say what you found."

    @property
    def expect(self) -> dict[str, Any]:
        return {"type": "fs_command", "match": {"line": self.line}}


# One for the deaf agent right after each tick: they climb one behind the other, so that the page
# shows every rung of the ladder at the same time.
PLANS = (
    Plan(0.5, "deaf", "df -h .", on_failed="escalate"),
    Plan(1, "picky", "git --version"),
    Plan(2, "steady", "python3 --version"),
    Plan(5.5, "deaf", "uptime"),
    Plan(7, "steady", "uname -sr"),
    Plan(10.5, "deaf", "nproc"),
    Plan(11, "picky", "date -u"),
    Plan(15.5, "deaf", "uname -sr"),
    Plan(17, "steady", "nproc", priority=True),
    Plan(20.5, "deaf", "git --version", max_retries=2),
    Plan(21, "picky", "df -h ."),
    Plan(22, "steady", "openspec --version"),
)


class Command(BaseCommand):
    help = "Show the whole ladder in a minute: three agents, a fast clock, a running Heed."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
        parser.add_argument(
            "--wait", type=float, default=180.0, help="how long to wait for your answer then (180)"
        )
        parser.add_argument("--url", help="where Heed runs, if not where 'make up' started it")
        parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast (1)")

    def handle(
        self,
        *args: Any,
        url: str | None,
        seconds: float,
        speed: float,
        wait: float,
        **options: Any,
    ) -> None:
        signal.signal(signal.SIGTERM, leave)
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        url = running_at(url)
        try:
            with alone(), staged(url, pull_s=PULL_S / speed) as heed:
                self.tell(f"Watch it at {url}/instructions/?project={PROJECT}  (Ctrl-C ends it)\n")
                sent = self.perform(heed, seconds=seconds, speed=speed)
                self.wait_for_a_person(url, seconds=wait, speed=speed)
                self.sum_up(heed, sent)
        except KeyboardInterrupt:
            self.tell("\nEnded. No agent is left running.")
        except HeedError as error:
            raise CommandError(f"{error.sentence} {error.hint}") from error

    def perform(self, heed: Client, *, seconds: float, speed: float) -> list[Instruction]:
        """Sends what is due and ticks the clock until the time is over; what was sent."""
        project = Project.objects.get(name=PROJECT)
        sent: list[Instruction] = []
        start, ticked = time.monotonic(), 0.0
        schedule = plans(until_s=seconds * speed)
        due = next(schedule)
        while (elapsed := (time.monotonic() - start) * speed) < seconds * speed:
            while due.at_s <= elapsed:
                sent.append(self.send(heed, due))
                due = next(schedule)
            if elapsed - ticked >= TICK_S:
                ticked += TICK_S
                self.tick(project, elapsed, min_age=MIN_AGE / speed)
            time.sleep(0.1 / speed)
        return sent

    def wait_for_a_person(self, url: str, *, seconds: float, speed: float) -> None:
        """Goes on until every question is answered and every answer heeded, or time is over."""
        project = Project.objects.get(name=PROJECT)
        start, asked = time.monotonic(), Escalation.objects.open().filter(project=project)
        if not asked.exists() or not seconds:
            return
        self.tell(f"\n{asked.count()} waits for you: {url}/escalations/?project={PROJECT}")
        self.tell("Answer it, with a fix such as: Run `uptime` and say what you found.")
        self.tell("deaf hears no machine, but it hears a person. Ctrl-C ends the demo.\n")
        waiting = Sent.objects.filter(project=project).awaiting_ack()
        while time.monotonic() - start < seconds and (asked.exists() or waiting.exists()):
            self.tick(project, (time.monotonic() - start) * speed, min_age=MIN_AGE / speed)
            time.sleep(TICK_S / speed / 5)

    def send(self, heed: Client, plan: Plan) -> Instruction:
        self.tell(f"demo   | to {plan.agent}: {plan.content}")
        return heed.instructions.send(
            plan.agent,
            plan.content,
            expect=plan.expect,
            max_retries=plan.max_retries,
            priority=plan.priority,
            on_failed=plan.on_failed,
        )

    def tick(self, project: Project, elapsed: float, *, min_age: timedelta) -> None:
        done = retry_unacknowledged(project=project, min_age=min_age)
        if done != Reminded():
            said = f"{done.requeued} told again, {done.given_up} given up"
            self.tell(f"clock  | idle check at {elapsed:.0f} s: {said}")

    def sum_up(self, heed: Client, sent: list[Instruction]) -> None:
        self.tell(f"\n{'agent':<8}{'state':<14}{'deliveries':<12}{'last rung':<11}instruction")
        fates = [heed.instructions.get(each.id) for each in sent]
        for now in fates:
            self.tell(
                f"{now.agent_name:<8}{now.state:<14}{now.deliveries:<12}{now.urgency:<11}"
                f"{now.content}"
            )

        counts = Counter(now.state for now in fates)
        self.tell(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))

    def tell(self, text: str) -> None:
        # Flushed, because the agents write to the same terminal.
        self.stdout.write(text)
        self.stdout.flush()


def leave(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)


def plans(*, until_s: float) -> Iterator[Plan]:
    """The plans of every round that has the time to end, then one that never comes."""
    rounds = max(1, int((until_s + 1) // ROUND_S))
    for number in range(rounds):
        for plan in PLANS:
            yield replace(plan, at_s=plan.at_s + number * ROUND_S)
    yield Plan(float("inf"), "", "")


def running_at(url: str | None) -> str:
    """The address where Heed answers; raises CommandError where it does not."""
    url = url or local_url()
    if not url:
        raise CommandError(START_FIRST)
    try:
        # /healthz asks for no token, so any word will do.
        with Client(url, "none", retries=0, timeout=5) as heed:
            heed.perform(calls.health())
            return heed.settings.url
    except HeedError as error:
        raise CommandError(f"{error.sentence} {START_FIRST}") from error


def local_url() -> str:
    """Where `make up` says that it runs, or what the environment says."""
    if settings.HEED_URL:
        return str(settings.HEED_URL)
    try:
        running = json.loads((Path(settings.DATA_DIR) / "running.json").read_text())
        return str(running["url"])
    except (OSError, ValueError, KeyError):
        return os.environ.get("HEED_LOCAL_URL", "")


@contextmanager
def alone() -> Iterator[None]:
    """Refuses a second demo beside this one: each would drive the other's clock."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_try_advisory_lock(hashtext('heed demo'))")
        if not cursor.fetchone()[0]:
            raise CommandError("A demo runs already. Let it end, or stop it with Ctrl-C.")
        try:
            yield
        finally:
            cursor.execute("select pg_advisory_unlock(hashtext('heed demo'))")


@contextmanager
def staged(url: str, *, pull_s: float) -> Iterator[Client]:
    """The project, its agents at work as processes, and the client that gives them orders."""
    project, _ = Project.objects.get_or_create(name=PROJECT)
    revoke_all(project)
    cast = [agents.register(name, project=project, actor=DEMO) for name in NAMES]
    for agent in cast:
        # What an interrupted demo left behind would answer for the same instructions of this one.
        agents.reset(agent, actor=DEMO)
    _, secret = tokens.issue("orchestrator", project=project, name="demo", actor=DEMO)
    players: list[subprocess.Popen[bytes]] = []
    try:
        players += [play(agent, url, every_s=pull_s) for agent in cast]
        with Client(url, secret) as heed:
            yield heed
    finally:
        stop(players)
        revoke_all(project)


def play(agent: Agent, url: str, *, every_s: float) -> subprocess.Popen[bytes]:
    """Starts an agent that has the URL and its token and nothing else of ours."""
    _, secret = tokens.issue("agent", project=agent.project, agent=agent, actor=DEMO)
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, AGENTS_PY, agent.name, "--every", str(every_s), "--with-parent"],
        env=inherited | {"HEED_URL": url, "HEED_TOKEN": secret, "PYTHONPATH": str(CLIENT_DIR)},
        # Held open by us alone: it closes with us, however we end, and the agent ends with it.
        stdin=subprocess.PIPE,
    )


def stop(players: list[subprocess.Popen[bytes]]) -> None:
    for player in players:
        player.terminate()
    for player in players:
        try:
            player.wait(timeout=5)
        except subprocess.TimeoutExpired:
            player.kill()
            player.wait()
        if player.stdin:
            player.stdin.close()


def revoke_all(project: Project) -> None:
    for token in Token.objects.filter(project=project, created_by=DEMO.name, revoked_at=None):
        tokens.revoke(token, actor=DEMO)
