from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0007_daily_task_count"),
    ]

    operations = [
        migrations.AddField(
            model_name="token",
            name="first_used_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="token",
            name="first_call",
            field=models.JSONField(
                editable=False,
                help_text="what the first call was and where it came from",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="token",
            name="first_hook",
            field=models.JSONField(
                editable=False,
                help_text="the first event of a coding agent's session",
                null=True,
            ),
        ),
    ]
