from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0004_instruction_task"),
        ("retries", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="escalation",
            name="escalation_of_agent_is_question",
        ),
        migrations.AddConstraint(
            model_name="escalation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("asked_in__isnull", True),
                    ("reason__in", ("agent_question", "questions_exhausted")),
                    _connector="OR",
                ),
                name="escalation_of_agent_is_question",
            ),
        ),
    ]
