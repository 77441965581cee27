"""The changes that attempts made to the source, and the environments that they ran in."""

from django.db import models

from ledger.models import Attempt


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
