from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0037_proof_backfill")]

    operations = [
        migrations.AddField(
            model_name="plan",
            name="evidence",
            field=models.CharField(
                choices=[
                    ("record", "Record"),
                    ("ask", "Ask"),
                    ("require", "Require"),
                ],
                max_length=8,
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="evidence",
            field=models.CharField(
                choices=[
                    ("record", "Record"),
                    ("ask", "Ask"),
                    ("require", "Require"),
                ],
                max_length=8,
                null=True,
            ),
        ),
    ]
