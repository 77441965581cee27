"""Check the ledger's consistency."""

import shlex
import sys
from typing import Any

from django.core.management.base import BaseCommand

from ledger.access import audit
from ledger.database.time_limit import without_time_limit
from ledger.journal_storage import deletion as journal_deletion


class Command(BaseCommand):
    help = "Check the journal against the tables; print inconsistencies and exit with 1 if any."

    @without_time_limit()
    def handle(self, **_: Any) -> None:
        findings = 0
        for finding in audit.audit():
            findings += 1
            self.stdout.write(str(finding))
        # After the checks: a deletion that has begun meanwhile is named, too.
        for name in journal_deletion.list_marked_projects():
            again = shlex.quote(name)
            self.stdout.write(
                f"The deletion of the project '{name}' has not finished; its rows were not "
                "checked. If it was interrupted, continue it: "
                f"manage.py project delete {again} --yes-delete {again}"
            )
        if findings:
            sys.exit(1)
        self.stdout.write("The ledger is consistent.")
