from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0029_dead_letter_open_task"),
    ]

    operations = [
        migrations.AddField(
            model_name="preference",
            name="hides_first_steps",
            field=models.BooleanField(
                db_default=False,
                help_text="whether Overview leaves out the steps to begin with",
            ),
        ),
    ]
