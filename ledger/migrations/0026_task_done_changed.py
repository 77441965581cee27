from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0025_attempt_trace"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("state", "done")),
                fields=["updated_at"],
                name="task_done_changed",
            ),
        ),
    ]
