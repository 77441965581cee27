"""The journal refuses TRUNCATE as it refuses UPDATE and DELETE."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_database")]

    operations = [
        migrations.RunSQL(
            "create trigger ledger_event_no_truncate before truncate on ledger_event "
            "for each statement execute function ledger_event_guard()",
            "drop trigger ledger_event_no_truncate on ledger_event",
        ),
    ]
