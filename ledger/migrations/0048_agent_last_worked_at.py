"""Store when an agent last got or reported work, which decides how often it asks for more."""

from django.db import models
from django.db.migrations import AddField
from django.db.migrations import Migration as BaseMigration


class Migration(BaseMigration):
    dependencies = [("ledger", "0047_stream_number")]

    operations = [
        AddField("agent", "last_worked_at", models.DateTimeField(null=True, editable=False))
    ]
