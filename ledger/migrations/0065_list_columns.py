"""Store which columns of lists a person has pinned."""

from django.db.migrations import AddField
from django.db.migrations import Migration as BaseMigration
from django.db.models import JSONField


class Migration(BaseMigration):
    dependencies = [("ledger", "0064_paused_types")]

    operations = [
        AddField(
            "preference",
            "list_columns",
            JSONField(
                db_default={},
                default=dict,
                help_text="by list, the columns that are shown or hidden unlike by default",
            ),
        )
    ]
