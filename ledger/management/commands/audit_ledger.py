"""Say whether the ledger adds up."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from ledger import audit


class Command(BaseCommand):
    help = "Replays the journal; one line for each thing that does not add up, exit code 1 then."

    def handle(self, **_: Any) -> None:
        findings = 0
        for finding in audit.audit():
            findings += 1
            self.stdout.write(str(finding))
        if findings:
            sys.exit(1)
        self.stdout.write("The ledger adds up.")
