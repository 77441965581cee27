from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0027_breaker_kept_open"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("attempts__gt", 1)),
                fields=["state", "id"],
                name="task_retried",
            ),
        ),
    ]
