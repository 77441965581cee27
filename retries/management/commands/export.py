"""Write the retry state and logs to files."""

import os
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger.database import server_time
from ledger.database.time_limit import without_time_limit
from ledger.models import Plan, Project
from ledger.models.project import DEFAULT
from retries.renderings import documents, retry_jsonl
from retries.renderings.scope import RenderingScope

FILE_MODE, FOLDER_MODE = 0o640, 0o750


class Command(BaseCommand):
    help = "Writes the retry state, logs and failure records, as 'tenfour export' does."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", metavar="DIR", help="created if it is missing")
        parser.add_argument("--project", default=DEFAULT)
        parser.add_argument("--plan", metavar="REF", help="only this plan")

    @without_time_limit()
    def handle(self, *, folder: str, project: str, plan: str | None, **_: Any) -> None:
        found = Project.objects.filter(name=project).first()
        if found is None:
            raise CommandError(f"There is no project '{project}'.")
        plans = Plan.objects.filter(project=found)
        if plan and not plans.filter(ref=plan).exists():
            raise CommandError(f"There is no plan {plan} in the project '{project}'.")
        try:
            if plan:
                self.write(Path(folder), RenderingScope(found.pk, plans.get(ref=plan)))
            else:
                self.write_all(Path(folder), found)
        except OSError as error:
            raise CommandError(f"{error.filename or folder}: {error.strerror}.") from error

    def write_all(self, folder: Path, project: Project) -> None:
        self.write(folder, RenderingScope(project.pk))
        recent = server_time.now() - retry_jsonl.WINDOW
        plans = Plan.objects.filter(project=project, task__updated_at__gte=recent)
        for each in plans.order_by("ref").distinct():
            self.write(folder / "plans" / each.ref, RenderingScope(project.pk, each))

    def write(self, folder: Path, about: RenderingScope) -> None:
        make_folder(folder)
        for name, pieces in documents.render_files(about, now=server_time.now()).items():
            replace(folder / name, pieces)
            self.stdout.write(str(folder / name))


def make_folder(folder: Path) -> None:
    # Other users can't enter the new folders.
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=FOLDER_MODE, exist_ok=True)


def replace(path: Path, pieces: Iterable[str]) -> None:
    # Write a draft beside the file first, so that readers never see a part of it.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            # The files contain the output of programs: only the owner and the group read them.
            os.fchmod(file.fileno(), FILE_MODE)
            file.writelines(pieces)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
