"""Read the archives of deleted rows."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from retries.retention import archives
from retries.retention.running import archive_folder


class Command(BaseCommand):
    help = "Lists, shows or verifies what retention archived before it was deleted."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--folder", metavar="DIR", help="by default that of TENFOUR_ARCHIVE")
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", help="print the files with their records and sizes")
        show = verbs.add_parser("show", help="print the records with an id or a ref, as JSON lines")
        show.add_argument("ref", metavar="REF", help="such as 03-01:task-3, or any id")
        verbs.add_parser("verify", help="read all records, and report those that can't be read")

    def handle(self, *, verb: str, folder: str | None, ref: str = "", **_: Any) -> None:
        place = Path(folder) if folder else archive_folder()
        if place is None:
            raise CommandError("TENFOUR_ARCHIVE is off. Name a folder with --folder.")
        try:
            if not archives.list_files(place):
                raise CommandError(f"There are no archives in {place}.")
            {"list": self.list, "show": self.show, "verify": self.verify}[verb](place, ref)
        except OSError as error:
            raise CommandError(f"{error.filename or place}: {error.strerror}.") from error

    def list(self, folder: Path, _: str) -> None:
        for path in archives.list_files(folder):
            records = sum(1 for _ in archives.read_lines(path, self.report))
            size = path.stat().st_size
            self.stdout.write(f"{archives.name_of(path)}: {records} records, {size} bytes")

    def show(self, folder: Path, ref: str) -> None:
        found = False
        for record in archives.find_records(folder, ref, self.report):
            found = True
            self.stdout.write(as_text(json.dumps(record, ensure_ascii=False)))
        if not found:
            raise CommandError(f"No record in {folder} has the id or ref {as_text(ref)}.")

    def verify(self, folder: Path, _: str) -> None:
        files, problems = archives.list_files(folder), list[str]()
        for path in files:
            for _record in archives.read_records(path, problems.append):
                pass
        for problem in problems:
            self.stdout.write(problem)
        if problems:
            sys.exit(1)
        self.stdout.write(f"All records of {len(files)} files can be read.")

    def report(self, problem: str) -> None:
        self.stderr.write(as_text(problem))


def as_text(text: str) -> str:
    # Lone surrogates can't be printed.
    return text.encode(errors="replace").decode()
