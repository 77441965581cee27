from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0028_task_retried"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(
                condition=models.Q(("closed_at", None)),
                fields=["task"],
                name="dead_letter_open_task",
            ),
        ),
    ]
