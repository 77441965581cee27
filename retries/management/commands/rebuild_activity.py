"""Count again what happened in each half hour and each day."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger.database import server_time
from ledger.database.time_limit import without_time_limit
from retries.journal_readers.horizon import BEGINNING
from retries.journal_readers.rebuild import RebuildReplaced, rebuild_activity


class Command(BaseCommand):
    help = (
        "Counts the journal again for the figures of Overview and Agents. They are incomplete "
        "until it ends; if it was interrupted, run it again. Days with rows that were deleted "
        "keep their counts."
    )

    @without_time_limit()
    def handle(self, **_: Any) -> None:
        try:
            result = rebuild_activity(now=server_time.now())
        except RebuildReplaced as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Counted the journal again, in {result.runs} runs of events.")
        if result.since > BEGINNING:
            self.stdout.write(
                f"Kept the counts of the days before {result.since:%Y-%m-%d}: not all that they "
                "count still exists."
            )
