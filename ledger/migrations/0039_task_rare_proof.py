"""Index the tasks with a rare proof, while agents go on reporting: see 0029."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

WAIT = "set lock_timeout = 0"
NO_LONG_WAIT = "reset lock_timeout"
DROP = "drop index concurrently if exists task_rare_proof"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0038_evidence_level")]

    operations = [
        migrations.RunSQL(WAIT, NO_LONG_WAIT),
        migrations.RunSQL(DROP, migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("proof__in", ["stale", "person"])),
                fields=["proof", "id"],
                name="task_rare_proof",
            ),
        ),
        migrations.RunSQL(NO_LONG_WAIT, WAIT),
    ]
