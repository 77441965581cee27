"""Check the ledger's consistency."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from ledger import audit
from ledger.time_limit import without_time_limit


class Command(BaseCommand):
    help = "Check the journal against the tables; print inconsistencies and exit with 1 if any."

    @without_time_limit()
    def handle(self, **_: Any) -> None:
        findings = 0
        for finding in audit.audit():
            findings += 1
            self.stdout.write(str(finding))
        if findings:
            sys.exit(1)
        self.stdout.write("The ledger is consistent.")
