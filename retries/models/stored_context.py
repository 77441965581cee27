"""Retry contexts as they were given, and the changes and the output of an attempt."""

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


class AttemptDiff(models.Model):
    """The diff that an attempt left and the environment that it ran in, if its client sends them.

    It has its own table, so that no list of attempts reads the text.
    """

    attempt = models.OneToOneField(Attempt, models.CASCADE, primary_key=True, related_name="source")
    diff = models.TextField(db_default="")
    environment = models.JSONField(
        null=True, help_text="folder, branch, and versions of tools, by name"
    )
    check_key = models.CharField(
        max_length=32, db_default="", help_text="the project and the command that checks the work"
    )

    class Meta:
        indexes = [
            # Ids of attempts ascend with time: the newest of a check comes last.
            models.Index(
                fields=["check_key", "attempt"],
                condition=~models.Q(check_key=""),
                name="attempt_diff_check",
            )
        ]

    def __str__(self) -> str:
        return f"diff of {self.attempt_id}"


class AttemptOutput(models.Model):
    """A piece of what an attempt has printed. The newest piece may grow."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, db_index=False, related_name="output")
    at = models.BigIntegerField(help_text="the bytes that were printed before it")
    size = models.IntegerField(help_text="its bytes as they were printed")
    text = models.TextField(help_text="as a terminal shows it, without secrets")
    pk = models.CompositePrimaryKey("attempt_id", "at")

    def __str__(self) -> str:
        return f"output of {self.attempt_id} from byte {self.at}"
