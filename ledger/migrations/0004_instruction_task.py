import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0003_event_truncate"),
    ]

    operations = [
        migrations.AddField(
            model_name="instruction",
            name="task",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                to="ledger.task",
            ),
        ),
    ]
