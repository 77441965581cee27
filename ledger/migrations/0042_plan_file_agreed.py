from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0041_instruction_unread"),
    ]

    operations = [
        migrations.AddField(
            model_name="plan",
            name="file_agreed_at",
            field=models.DateTimeField(null=True),
        ),
    ]
