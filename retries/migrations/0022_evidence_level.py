from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0038_evidence_level"),
        ("retries", "0021_sealed_answers"),
    ]

    operations = [
        migrations.AddField(
            model_name="retrypolicy",
            name="evidence",
            field=models.CharField(
                blank=True,
                choices=[
                    ("record", "Record"),
                    ("ask", "Ask"),
                    ("require", "Require"),
                ],
                help_text="what is asked for before a task is done",
                max_length=8,
                null=True,
            ),
        ),
    ]
