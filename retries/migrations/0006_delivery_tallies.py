import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0011_session"),
        ("retries", "0005_notifications"),
    ]

    operations = [
        migrations.CreateModel(
            name="DeliveryTally",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("event_type", models.CharField(max_length=40)),
                ("status_class", models.CharField(help_text="2xx to 5xx, or none", max_length=5)),
                ("tries", models.BigIntegerField()),
                ("seconds", models.FloatField()),
                ("buckets", models.JSONField(help_text="tries of at most each of TRY_BUCKETS")),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="ledger.project",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "delivery tallies",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "event_type", "status_class"),
                        name="delivery_tally_once",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="OngoingCondition",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("condition", models.CharField(max_length=16)),
                ("subject_id", models.UUIDField()),
                ("since", models.DateTimeField()),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="ledger.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("condition", "subject_id"), name="ongoing_condition_once"
                    )
                ],
            },
        ),
    ]
