from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0024_attempt_usage")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="trace_id",
            field=models.CharField(db_default="", max_length=32),
        ),
        migrations.AddField(
            model_name="attempt",
            name="span_id",
            field=models.CharField(db_default="", max_length=16),
        ),
    ]
