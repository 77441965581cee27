"""Let the journal's readers go on after a move to another server."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db.models import Max

from ledger.database.time_limit import without_time_limit
from ledger.journal_storage.rebasing import advance_sequences, rebase_stream
from retries.models import StreamCursor


class Command(BaseCommand):
    help = (
        "Lets the journal's readers (webhooks, notifications, counts, search) go on after the "
        "database moved to another server by a dump or by logical replication. Run it before "
        "Tenfour starts there."
    )

    @without_time_limit()
    def handle(self, **_: Any) -> None:
        read_up_to = StreamCursor.objects.aggregate(newest=Max("tx"))["newest"] or 0
        if rebased := rebase_stream(read_up_to=read_up_to):
            self.stdout.write(f"New events follow the stored ones: the epoch is {rebased.epoch}.")
            if rebased.renumbered:
                self.stdout.write(
                    f"Renumbered {rebased.renumbered} events that this server has written."
                )
        else:
            self.stdout.write("New events follow the stored ones already.")
        if advanced := advance_sequences():
            self.stdout.write(f"Set {advanced} sequences that were behind their rows.")
