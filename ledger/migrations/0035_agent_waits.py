from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0034_session_task_dropped"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="waits_until",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="agent",
            name="waits_for",
            field=models.TextField(db_default="", editable=False),
        ),
        migrations.AddField(
            model_name="agent",
            name="wait_step_s",
            field=models.SmallIntegerField(db_default=0, editable=False),
        ),
    ]
