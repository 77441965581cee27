from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0042_plan_file_agreed"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="waits_in_row",
            field=models.IntegerField(db_default=0, editable=False),
        ),
        migrations.AddField(
            model_name="agent",
            name="waits_since",
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
