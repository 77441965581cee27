"""The plan demo: a dozen real tasks, and four agents, each with a weakness."""

import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from config.demo.demo_project import EXAMPLES, Player, Stage, end
from ledger.models import Attempt, Plan, Task
from ledger.states import FINAL

FOLDER = Path(settings.DATA_DIR) / "demo"
# How long the tool is missing that the agent `shaky` needs: by then its breaker has opened.
REPAIR_S = 30.0
TOOL = '#!/bin/sh\necho "$1" >> published.txt\n'


@dataclass
class Building:
    """Imports the plan, starts its agents, breaks things, repairs them, and sums up."""

    stage: Stage
    report: Callable[[str], None]
    mortal: Player | None = None
    ref: str = ""
    elapsed: float = 0.0
    repair_at: float = REPAIR_S
    is_killed: bool = False
    is_repaired: bool = False

    def begin(self) -> None:
        self.import_next()
        for _ in range(2):
            self.play("builder")
        self.play("sleepy", "--no-heartbeats")
        self.play("shaky")
        self.mortal = self.play("mortal", "--no-heartbeats")

    def import_next(self) -> None:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        source = yaml.safe_load((EXAMPLES / "demo_plan.yaml").read_text())
        self.ref = source["ref"] = self.next_ref()
        self.repair_at = self.elapsed + REPAIR_S
        self.is_killed = self.is_repaired = False
        self.stage.tenfour.plans.create(source, register=True)

    def next_ref(self) -> str:
        used = Plan.objects.filter(project=self.stage.project, ref__startswith="01-").count()
        return f"01-{used + 1:02}"

    def play(self, name: str, *options: str) -> Player:
        folder = str(FOLDER)
        return self.stage.play(name, "builder.py", "--folder", folder, "--every", "1", *options)

    def look(self, elapsed: float) -> None:
        self.elapsed = elapsed
        if not self.is_killed and self.mortal and self.mortal.pid in self.at_work():
            self.report("demo   | mortal is killed with -9 in the middle of its task")
            end(self.mortal, signal.SIGKILL)
            self.is_killed = True
            self.mortal = self.play("mortal")
        if not self.is_repaired and elapsed > self.repair_at:
            self.report("demo   | the tool that shaky was missing is installed")
            tool = FOLDER / "publish"
            tool.write_text(TOOL)
            tool.chmod(0o755)
            self.is_repaired = True

    def at_work(self) -> set[int]:
        live = Attempt.objects.filter(
            agent__name="mortal", task__project=self.stage.project, outcome=None
        )
        return {
            int(worker.rpartition("-")[2]) for worker in live.values_list("worker_id", flat=True)
        }

    @property
    def tasks(self) -> Any:
        mine = Task.objects.filter(project=self.stage.project, plan__ref=self.ref)
        return mine.filter(replaced_by=None).order_by("id")

    @property
    def is_over(self) -> bool:
        return not self.tasks.exclude(state__in=FINAL).exists()

    def sum_up(self) -> None:
        self.report(f"\n{'task':<16}{'state':<11}{'attempts':<10}title")
        for task in self.tasks:
            self.report(f"{task.ref:<16}{task.state:<11}{task.attempts:<10}{task.title}")
