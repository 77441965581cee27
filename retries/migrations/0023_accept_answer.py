from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("retries", "0022_evidence_level")]

    operations = [
        migrations.RemoveConstraint(
            model_name="escalation",
            name="escalation_answer_where_resolved",
        ),
        migrations.AddConstraint(
            model_name="escalation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        (
                            "action__in",
                            ["retry", "fix", "skip", "abort", "answer", "accept"],
                        ),
                        ("state", "resolved"),
                    ),
                    models.Q(
                        models.Q(("state", "resolved"), _negated=True),
                        ("action__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="escalation_answer_where_resolved",
            ),
        ),
    ]
