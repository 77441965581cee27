from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("retries", "0023_accept_answer"),
    ]

    operations = [
        migrations.AddField(
            model_name="contextexperiment",
            name="share",
            field=models.SmallIntegerField(
                db_default=10, help_text="percentage of the tasks that do without it"
            ),
        ),
        migrations.AddConstraint(
            model_name="contextexperiment",
            constraint=models.CheckConstraint(
                condition=models.Q(("share__range", (1, 50))), name="experiment_share_range"
            ),
        ),
    ]
