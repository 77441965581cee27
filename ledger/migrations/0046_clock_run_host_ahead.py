"""Store how far the clock of a worker's host is ahead of PostgreSQL's."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0045_failure_telling_lines")]

    operations = [
        migrations.AddField(
            "clockrun",
            "host_ahead_s",
            models.FloatField(
                db_default=0.0, help_text="seconds that the worker's host was ahead of PostgreSQL"
            ),
        ),
    ]
