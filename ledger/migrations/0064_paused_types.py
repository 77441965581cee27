"""Store which types of tasks a project does not hand out."""

from django.db.migrations import AddField
from django.db.migrations import Migration as BaseMigration
from django.db.models import JSONField


class Migration(BaseMigration):
    dependencies = [("ledger", "0063_form_keys")]

    operations = [
        AddField(
            "project",
            "paused_types",
            JSONField(
                editable=False,
                help_text="the types whose tasks are not handed out: since when, by whom, and why",
                null=True,
            ),
        )
    ]
