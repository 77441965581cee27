from django.db import migrations, models
from django.db.models.expressions import RawSQL


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0033_daily_session_bytes"),
    ]

    operations = [
        migrations.AddField(
            model_name="session",
            name="task_dropped_count",
            field=models.IntegerField(db_default=0),
        ),
        migrations.AlterField(
            model_name="sessiontask",
            name="state",
            field=models.CharField(
                choices=[
                    ("pending", "Pending"),
                    ("running", "Running"),
                    ("success", "Success"),
                    ("failed", "Failed"),
                    ("dropped", "Dropped"),
                ],
                db_default="pending",
                max_length=8,
            ),
        ),
        migrations.RemoveConstraint(
            model_name="sessiontask",
            name="session_task_state_known",
        ),
        migrations.AddConstraint(
            model_name="sessiontask",
            constraint=models.CheckConstraint(
                condition=RawSQL(
                    "state ~ '^(pending|running|success|failed|dropped)$'",
                    (),
                    models.BooleanField(),
                ),
                name="session_task_state_known",
            ),
        ),
    ]
