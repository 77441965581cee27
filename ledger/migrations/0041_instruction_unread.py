"""Index the instructions whose receipt is to come, while agents go on reporting.

The index is built beside all writers. It waits for older transactions, and nothing waits for it.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# A transaction of a backup, for example, can take longer than a request may wait for a lock.
WAIT = "set lock_timeout = 0"
NO_LONG_WAIT = "reset lock_timeout"
# A build that was cut short leaves an index that is invalid, and its name is taken.
DROP = "drop index concurrently if exists instruction_unread"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("ledger", "0040_instruction_receipts"),
    ]

    operations = [
        migrations.RunSQL(WAIT, NO_LONG_WAIT),
        migrations.RunSQL(DROP, migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="instruction",
            index=models.Index(
                condition=models.Q(("state", "delivered"), ("unread", True)),
                fields=["agent"],
                name="instruction_unread",
            ),
        ),
        migrations.RunSQL(NO_LONG_WAIT, WAIT),
    ]
