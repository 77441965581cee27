import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0035_agent_waits"),
        ("retries", "0024_experiment_share"),
    ]

    operations = [
        migrations.CreateModel(
            name="AttemptDiff",
            fields=[
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="source",
                        serialize=False,
                        to="ledger.attempt",
                    ),
                ),
                ("diff", models.TextField(db_default="")),
                (
                    "environment",
                    models.JSONField(
                        help_text="folder, branch, and versions of tools, by name", null=True
                    ),
                ),
                (
                    "check_key",
                    models.CharField(
                        db_default="",
                        help_text="the project and the command that checks the work",
                        max_length=32,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("check_key", ""), _negated=True),
                        fields=["check_key", "attempt"],
                        name="attempt_diff_check",
                    )
                ],
            },
        ),
    ]
