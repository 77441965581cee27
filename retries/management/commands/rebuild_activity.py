"""Count again what happened in each half hour and each day."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from retries.activity_rebuild import RebuildReplaced, rebuild_activity


class Command(BaseCommand):
    help = (
        "Counts the whole journal again for the figures of Overview and Agents. "
        "They are incomplete until it ends."
    )

    def handle(self, **_: Any) -> None:
        try:
            runs = rebuild_activity(now=timezone.now())
        except RebuildReplaced as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Counted the journal again, in {runs} runs of events.")
