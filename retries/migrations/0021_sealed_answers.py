"""Add the columns for answers and options that held a secret, encrypted as they were typed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("retries", "0020_shown_addresses")]

    operations = [
        migrations.AddField(
            "escalation",
            "sealed",
            models.TextField(
                db_default="",
                editable=False,
                help_text="an answer with a secret, as typed, encrypted; the others are masked",
            ),
        ),
        migrations.AddField(
            "operation",
            "sealed",
            models.TextField(
                db_default="",
                editable=False,
                help_text="options with a secret, as typed, encrypted; the others are masked",
            ),
        ),
    ]
