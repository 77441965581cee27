import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0008_token_first_call"),
        ("retries", "0002_questions_exhausted"),
    ]

    operations = [
        migrations.AddField(
            model_name="grouped",
            name="entities",
            field=models.JSONField(
                db_default=[], help_text="what the cause names, such as a module"
            ),
        ),
        migrations.AddField(
            model_name="grouped",
            name="files_changed",
            field=models.IntegerField(
                help_text="number of changed files; null if the agent did not say", null=True
            ),
        ),
        migrations.AddField(
            model_name="grouped",
            name="signature",
            field=models.CharField(
                db_default="", help_text="hash of the pattern and the entities", max_length=16
            ),
        ),
        migrations.CreateModel(
            name="RetryPolicy",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="ledger.project",
                    ),
                ),
                (
                    "ask_at_once",
                    models.CharField(
                        choices=[
                            ("off", "no tasks"),
                            ("plans", "tasks of plans"),
                            ("all", "all tasks"),
                        ],
                        db_default="plans",
                        default="plans",
                        help_text="ask a person at once where credentials or credit are missing",
                        max_length=8,
                    ),
                ),
                (
                    "obey_waits",
                    models.CharField(
                        choices=[
                            ("off", "no tasks"),
                            ("plans", "tasks of plans"),
                            ("all", "all tasks"),
                        ],
                        db_default="all",
                        default="all",
                        help_text="wait as long as a rate limit says, at most 15 minutes",
                        max_length=8,
                    ),
                ),
                (
                    "ask_on_same_failure",
                    models.CharField(
                        choices=[
                            ("off", "no tasks"),
                            ("plans", "tasks of plans"),
                            ("all", "all tasks"),
                        ],
                        db_default="off",
                        default="off",
                        help_text="ask a person if an error comes back and no file has changed",
                        max_length=8,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "retry policies",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ask_at_once__in", ["off", "plans", "all"]),
                            ("ask_on_same_failure__in", ["off", "plans", "all"]),
                            ("obey_waits__in", ["off", "plans", "all"]),
                        ),
                        name="policy_scopes_known",
                    )
                ],
            },
        ),
    ]
