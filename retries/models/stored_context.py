"""The retry contexts that agents got."""

from django.db import models
from django.db.models import Q

from ledger.models import Attempt


class StoredContext(models.Model):
    """The retry context that an attempt was given, as its agent got it.

    It has its own table, so that no list of attempts reads the text.
    """

    attempt = models.OneToOneField(
        Attempt, models.CASCADE, primary_key=True, related_name="stored_context"
    )
    text = models.TextField()
    signature = models.CharField(
        max_length=16, db_default="", help_text="signature that the fix in it worked for before"
    )
    fix_key = models.CharField(max_length=16, db_default="", help_text="the fix in it, if any")

    class Meta:
        indexes = [
            models.Index(fields=["signature"], condition=~Q(fix_key=""), name="stored_context_fix")
        ]

    def __str__(self) -> str:
        return f"retry context of {self.attempt_id}"
