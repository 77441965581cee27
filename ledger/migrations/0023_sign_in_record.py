import django.db.models.functions.datetime
from django.db import migrations, models

import ledger.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0022_journal_months"),
    ]

    operations = [
        migrations.CreateModel(
            name="SignInRecord",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        db_default=ledger.models.fields.UUIDv7(),
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("signed_in", "Signed In"),
                            ("signed_out", "Signed Out"),
                            ("refused", "Refused"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        blank=True, help_text="empty: no such account", max_length=150
                    ),
                ),
                ("method", models.CharField(max_length=14)),
                ("address", models.CharField(blank=True, max_length=45)),
                ("user_agent", models.CharField(blank=True, max_length=300)),
            ],
            options={
                "indexes": [models.Index(fields=["username", "id"], name="sign_in_record_of")],
            },
        ),
    ]
