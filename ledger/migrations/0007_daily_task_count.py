import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0006_attempt_session_index"),
    ]

    operations = [
        migrations.CreateModel(
            name="DailyTaskCount",
            fields=[
                (
                    "agent",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="ledger.agent",
                    ),
                ),
                ("day", models.DateField()),
                ("tasks", models.IntegerField()),
            ],
        ),
    ]
