"""Count again what happened in each half hour and each day."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from retries.activity_counts import rebuild_activity


class Command(BaseCommand):
    help = (
        "Counts the whole journal again for the figures of Overview and Agents. "
        "They are incomplete until it ends."
    )

    def handle(self, **_: Any) -> None:
        batches = rebuild_activity(now=timezone.now())
        self.stdout.write(f"Counted the journal again, in {batches} batches.")
