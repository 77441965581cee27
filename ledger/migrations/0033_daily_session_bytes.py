from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0032_event_actor"),
    ]

    operations = [
        migrations.AddField(
            model_name="dailytaskcount",
            name="session_bytes",
            field=models.BigIntegerField(db_default=0),
        ),
    ]
