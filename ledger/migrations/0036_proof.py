import django.db.models.expressions
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0035_agent_waits"),
    ]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="checks",
            field=models.JSONField(
                help_text="commands that checked its work, oldest first", null=True
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="tree",
            field=models.JSONField(help_text="commit and differences that it left", null=True),
        ),
        migrations.AddField(
            model_name="task",
            name="proof",
            field=models.CharField(
                choices=[
                    ("proven", "Proven"),
                    ("stale", "Stale"),
                    ("claimed", "Claimed"),
                    ("person", "Person"),
                ],
                max_length=8,
                null=True,
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=django.db.models.expressions.RawSQL(
                    "proof is null or state = 'done' and proof ~ '^(proven|stale|claimed|person)$'",
                    (),
                    models.BooleanField(),
                ),
                name="task_done_has_proof",
            ),
        ),
    ]
