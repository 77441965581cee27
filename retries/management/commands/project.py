"""Export, move and delete projects."""

import gzip
import os
from argparse import ArgumentParser
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger.database import server_time
from ledger.database.time_limit import without_time_limit
from ledger.journal import SHELL, Stamp
from ledger.models import Project
from retries.retention.projects import deletion, export, move

FILE_MODE = 0o600


class Command(BaseCommand):
    help = "Exports, moves or deletes a project with everything in it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        export = verbs.add_parser("export", help="write all rows of a project as JSON lines")
        export.add_argument("name", metavar="NAME")
        export.add_argument("file", metavar="FILE", help="a name that ends in .gz is compressed")
        fetch = verbs.add_parser("fetch", help="move a project here from another installation")
        fetch.add_argument("name", metavar="NAME")
        fetch.add_argument(
            "--from",
            dest="url",
            required=True,
            metavar="DATABASE_URL",
            help="the other installation's database",
        )
        fetch.add_argument("--as", dest="new_name", metavar="NAME", help="its name here")
        stay = verbs.add_parser(
            "stay", help="let the tokens of a project that was to move work here again"
        )
        stay.add_argument("name", metavar="NAME")
        delete = verbs.add_parser("delete", help="delete a project with everything in it")
        delete.add_argument("name", metavar="NAME")
        delete.add_argument(
            "--yes-delete", metavar="NAME", help="the project's name again: there is no undo"
        )

    @without_time_limit()
    def handle(
        self,
        *,
        verb: str,
        name: str,
        file: str = "",
        yes_delete: str | None = None,
        url: str = "",
        new_name: str | None = None,
        **_: Any,
    ) -> None:
        if verb == "fetch":
            self.fetch(name, url, new_name or name)
            return
        project = Project.objects.filter(name=name).first()
        if project is None:
            raise CommandError(f"There is no project '{name}'.")
        if verb == "export":
            self.export(project, Path(file))
        elif verb == "stay":
            move.cancel(project)
            self.stdout.write(f"The project '{name}' stays here: its tokens work again.")
        else:
            self.delete(project, yes_delete)

    def export(self, project: Project, file: Path) -> None:
        # A device would be replaced, too.
        if file.exists() and not file.is_file():
            raise CommandError(f"{file} is not a regular file. Name one that may be replaced.")
        draft = file.with_name(f"{file.name}.part")
        rows = -2  # the heading and the last line
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
            with os.fdopen(descriptor, "wb") as out:
                packing = (
                    gzip.GzipFile(fileobj=out, mode="wb")
                    if file.suffix == ".gz"
                    else nullcontext(out)
                )
                with packing as packed:
                    for line in export.export_project(project, now=server_time.now()):
                        packed.write(line.encode())
                        rows += 1
                out.flush()
                os.fsync(out.fileno())
            draft.replace(file)
        except OSError as error:
            raise CommandError(f"{error.filename or file}: {error.strerror}.") from error
        finally:
            draft.unlink(missing_ok=True)
        self.stdout.write(f"{file} has {rows} rows of the project '{project.name}'.")

    def fetch(self, name: str, url: str, new_name: str) -> None:
        try:
            with move.connect(url) as source:
                moved = move.move_here(source, name, new_name=new_name)
        except move.CannotMove as refusal:
            raise CommandError(str(refusal)) from refusal
        tasks, events = (moved.rows[table] for table in ("ledger_task", "ledger_event"))
        self.stdout.write(
            f"The project '{new_name}' is here, with {sum(moved.rows.values())} rows, of them "
            f"{tasks} tasks and {events} events. The other installation refuses its tokens: send "
            f"its agents here. If it has archives, copy the folder {moved.project_id} of them."
        )
        if moved.strangers:
            self.stdout.write(f"Members without an account here: {', '.join(moved.strangers)}.")

    def delete(self, project: Project, confirmed: str | None) -> None:
        counts = deletion.count_rows(project)
        listed = ", ".join(f"{number} {noun}" for noun, number in counts.items())
        self.stdout.write(f"The project '{project.name}' has {listed}.")
        if confirmed != project.name:
            raise CommandError(
                "Nothing was deleted. Export it first if you may need it; to delete it "
                f"permanently, add --yes-delete {project.name}."
            )
        try:
            deletion.delete_project(project, stamp=Stamp(SHELL))
        except deletion.ProjectInUse as refusal:
            raise CommandError(f"Nothing was deleted. {refusal}") from refusal
        except OSError as error:
            raise CommandError(
                f"The project's archives can't be deleted: {error}. Allow it, and run this again."
            ) from error
        self.stdout.write(f"Deleted the project '{project.name}' with everything in it.")
