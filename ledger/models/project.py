"""The project: the tenant boundary."""

from django.db import models

from ledger.models.fields import key, stamp

DEFAULT = "default"


class Project(models.Model):
    """Agents, instructions and tokens belong to a project; `default` always exists."""

    id = key()
    name = models.CharField(max_length=64, unique=True)
    created_at = stamp()
    moving_since = models.DateTimeField(
        null=True,
        editable=False,
        help_text="since then it moves to another installation, and its tokens wait",
    )
    spent_until = models.DateTimeField(
        null=True, editable=False, help_text="its budget is used up until then"
    )

    def __str__(self) -> str:
        return self.name
