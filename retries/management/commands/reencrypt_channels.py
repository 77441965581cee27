"""Encrypt the secrets of channels and of answers with the current key."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger.secrets.encryption import Unreadable
from retries.escalations import typed_answers
from retries.notifications import channels


class Command(BaseCommand):
    help = "Encrypt the secrets of channels and answers with the current TENFOUR_SECRET_KEY."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            count = channels.reencrypt_secrets()
            typed_answers.reencrypt()
        except Unreadable as error:
            raise CommandError(
                f"{error} Or add the earlier key to TENFOUR_SECRET_KEY_FALLBACKS."
            ) from error
        self.stdout.write(f"{count} channel{'' if count == 1 else 's'} encrypted again")
