from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0023_sign_in_record"),
    ]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="usage",
            field=models.JSONField(help_text="tokens and cost, as its report says", null=True),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("usage__isnull", False)),
                fields=["agent", "id"],
                name="attempt_with_usage",
            ),
        ),
    ]
