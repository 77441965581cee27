"""`manage.py demo`: agents with weaknesses, instructions and a plan, against a running Tenfour."""

import logging
import signal
import time
from argparse import ArgumentParser
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from tenfour import TenfourError

from config.demo.demo_project import PROJECT, Stage, refuse_second_demo, run_stage, running_at
from config.demo.instruction_demo import Orders
from config.demo.plan_demo import Building
from retries.models import Escalation

# In an endless demo, what an agent ignores becomes a question after about this long.
ASK_AFTER_S = 60.0


class Command(BaseCommand):
    help = "Run agents that ignore, fail, hang and crash against a running Tenfour, until Ctrl-C."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--seconds", type=float, help="end after this time; else on Ctrl-C")
        parser.add_argument(
            "--wait", type=float, default=180.0, help="with --seconds: time for your answer (180)"
        )
        parser.add_argument("--url", help="where Tenfour runs, if not where 'make up' started it")
        parser.add_argument("--speed", type=float, default=1.0, help="speed-up factor (1)")

    def handle(
        self,
        *args: Any,
        url: str | None,
        seconds: float | None,
        speed: float,
        wait: float,
        **options: Any,
    ) -> None:
        signal.signal(signal.SIGTERM, leave)
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        url = running_at(url)
        try:
            with refuse_second_demo(), run_stage(url) as stage:
                self.play(stage, seconds=seconds, speed=speed, wait=wait)
        except KeyboardInterrupt:
            self.report("\nEnded. No agent is left running.")
        except TenfourError as error:
            raise CommandError(f"{error.sentence} {error.hint}") from error

    def play(self, stage: Stage, *, seconds: float | None, speed: float, wait: float) -> None:
        until_s = float("inf") if seconds is None else seconds
        orders = Orders(stage, speed, until_s * speed, self.report)
        building = Building(stage, self.report)
        self.report(sign_in(stage.url))
        orders.begin()
        building.begin()
        scope = f"?project={PROJECT}"
        self.report(f"Watch it at {stage.url}/instructions/{scope}")
        self.report(f"        and {stage.url}/plans/{building.ref}/{scope}")
        self.report("Press Ctrl-C to end it.\n")
        open_questions = Escalation.objects.open().filter(project=stage.project)
        start, has_asked = time.monotonic(), False
        while (elapsed := time.monotonic() - start) < until_s + wait:
            is_over = orders.is_over and building.is_over and not open_questions.exists()
            if is_over and elapsed > until_s:
                break
            if building.is_over and seconds is None:
                building.import_next()
                self.report(f"demo   | the next plan: {stage.url}/plans/{building.ref}/{scope}")
            orders.look(elapsed * speed)
            building.look(elapsed * speed)
            if not has_asked and elapsed > min(until_s, ASK_AFTER_S) and open_questions.exists():
                has_asked = True
                self.ask(stage, open_questions.count())
            time.sleep(0.1 / speed)
        orders.sum_up()
        building.sum_up()

    def ask(self, stage: Stage, count: int) -> None:
        noun = "question is" if count == 1 else "questions are"
        self.report(f"\n{count} {noun} open: {stage.url}/escalations/?project={PROJECT}")
        # No other instruction to deaf expects this command, so the report acknowledges the fix.
        self.report("Answer with a fix. For the agent deaf: Run `date -u` and say what you found.")
        self.report("For the version of the release:        Run `echo 2.0.0 > VERSION`")
        self.report("These agents ignore machines, but they follow a person.\n")

    def report(self, text: str) -> None:
        # Flushed, because the agents write to the same terminal.
        self.stdout.write(text)
        self.stdout.flush()


def leave(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)


def sign_in(url: str) -> str:
    credentials = Path(settings.DATA_DIR) / "credentials"
    where = f" The login is in {credentials}." if credentials.exists() else ""
    return f"Sign in at {url}/.{where}"
