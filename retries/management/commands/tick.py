"""Run one entry of the clock now."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger.errors import Refusal
from ledger.models import Project
from retries import sweeps


class Command(BaseCommand):
    help = "Runs one entry of the clock now and prints its counts."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="the entry to run")
        parser.add_argument("--list", action="store_true", help="print the names of the entries")
        parser.add_argument("--project", help="only for this project")

    def handle(self, *, name: str | None, list: bool, project: str | None, **_: Any) -> None:
        if list:
            self.stdout.write("\n".join(sweeps.ENTRIES))
            return
        if not name:
            raise CommandError("Give the name of an entry; --list prints all names.")
        try:
            counted = sweeps.run(name, project=find_project(project) if project else None)
        except Refusal as refusal:
            raise CommandError(refusal.detail) from refusal
        counts = ", ".join(
            f"{count} {what.replace('_', ' ')}"
            for what, count in counted.items()
            if isinstance(count, int)
        )
        self.stdout.write(f"{name}: {counts}")


def find_project(name: str) -> Project:
    found = Project.objects.filter(name=name).first()
    if found is None:
        raise CommandError(f"There is no project '{name}'.")
    return found
