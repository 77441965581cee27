"""Print what a policy would have changed in the past."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger.api.responses import encode_value
from ledger.database import server_time
from ledger.database.time_limit import without_time_limit
from ledger.models import Project
from ledger.models.project import DEFAULT
from retries.policies.editing import NAMES
from retries.policies.replay import DAYS, Replay, ReplayedTask, replay_policy
from retries.states import PolicyScope


class Command(BaseCommand):
    help = "Runs a policy over a project's history and prints which attempts it would have saved."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("policy", choices=NAMES)
        parser.add_argument("--project", default=DEFAULT)
        parser.add_argument("--days", type=int, default=DAYS)
        parser.add_argument(
            "--scope",
            choices=[PolicyScope.PLANS.value, PolicyScope.ALL.value],
            default=PolicyScope.ALL.value,
            help="replay tasks of plans alone, or all tasks",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    @without_time_limit()
    def handle(
        self, *, policy: str, project: str, days: int, scope: str, json: bool, **_: Any
    ) -> None:
        found = Project.objects.filter(name=project).first()
        if found is None:
            raise CommandError(f"There is no project '{project}'.")
        if not 0 < days <= 3650:
            raise CommandError("--days is a number from 1 to 3650.")
        replay = replay_policy(
            policy, project_id=found.pk, now=server_time.now(), days=days, most=None, scope=scope
        )
        if json:
            self.stdout.write(render_json(replay))
            return
        for line in describe(replay):
            self.stdout.write(line)


def render_json(replay: Replay) -> str:
    fields = asdict(replay) | {
        "saved": replay.saved,
        "saved_s": round(replay.saved_s, 3),
        "lost": len(replay.lost),
        "asked_more": replay.asked_more,
    }
    return json.dumps(fields, default=encode_value, indent=1)


def describe(replay: Replay) -> list[str]:
    return [
        f"{replay.policy}, for {PolicyScope(replay.scope).label}, since {replay.since:%Y-%m-%d}",
        f"tasks: {replay.tasks}, done: {replay.done}",
        f"attempts saved: {replay.saved} ({replay.saved_s:.0f} s)",
        f"successes lost: {len(replay.lost)}",
        f"additional questions: {replay.asked_more}",
        *map(describe_task, replay.changed),
    ]


def describe_task(task: ReplayedTask) -> str:
    effect = "loses its success" if task.loses_success else f"saves {task.saved}"
    name = " ".join(filter(None, (task.ref, task.title)))
    return f"  {task.id} {name}: after attempt {task.asks_after} {effect}"
