"""`manage.py demo`: agents with weaknesses, instructions and a plan, against a running Tenfour."""

import logging
import signal
import time
from argparse import ArgumentParser
from types import FrameType
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError
from tenfour import TenfourError

from config.demo.demo_project import PROJECT, Stage, alone, running_at, staged
from config.demo.instruction_demo import Orders
from config.demo.plan_demo import Building
from retries.models import Escalation


class Command(BaseCommand):
    help = "Show in a minute what Tenfour does about agents' weaknesses, on a running Tenfour."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
        parser.add_argument(
            "--wait", type=float, default=180.0, help="how long to wait for your answer then (180)"
        )
        parser.add_argument("--url", help="where Tenfour runs, if not where 'make up' started it")
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
            with alone(), staged(url) as stage:
                self.play(stage, seconds=seconds, speed=speed, wait=wait)
        except KeyboardInterrupt:
            self.tell("\nEnded. No agent is left running.")
        except TenfourError as error:
            raise CommandError(f"{error.sentence} {error.hint}") from error

    def play(self, stage: Stage, *, seconds: float, speed: float, wait: float) -> None:
        orders = Orders(stage, speed, seconds * speed, self.tell)
        building = Building(stage, self.tell)
        orders.begin()
        building.begin()
        of = f"?project={PROJECT}"
        self.tell(f"Watch it at {stage.url}/instructions/{of}")
        self.tell(f"        and {stage.url}/plans/{building.ref}/{of}  (Ctrl-C ends it)\n")
        asked = Escalation.objects.open().filter(project=stage.project)
        start, told = time.monotonic(), False
        while (elapsed := time.monotonic() - start) < seconds + wait:
            if elapsed > seconds and not asked.exists() and orders.is_over and building.is_over:
                break
            orders.look(elapsed * speed)
            building.look(elapsed * speed)
            if elapsed > seconds and asked.exists() and not told:
                told = True
                self.ask(stage, asked.count())
            time.sleep(0.1 / speed)
        orders.sum_up()
        building.sum_up()

    def ask(self, stage: Stage, count: int) -> None:
        """Say what waits for a person, and what would help."""
        verb = "waits" if count == 1 else "wait"
        self.tell(f"\n{count} {verb} for you: {stage.url}/escalations/?project={PROJECT}")
        self.tell("Answer with a fix. To deaf, for example: Run `uptime` and say what you found.")
        self.tell("About the version:                       Run `echo 2.0.0 > VERSION`")
        self.tell("They hear no machine, but they hear a person. Ctrl-C ends the demo.\n")

    def tell(self, text: str) -> None:
        # Flushed, because the agents write to the same terminal.
        self.stdout.write(text)
        self.stdout.flush()


def leave(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)
