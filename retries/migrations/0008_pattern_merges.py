import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0011_session"),
        ("retries", "0007_fixes_and_contexts"),
    ]

    operations = [
        migrations.AddField(
            model_name="failurepattern",
            name="merged_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="failurepattern",
            name="merged_into",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="merged",
                to="retries.failurepattern",
            ),
        ),
        migrations.AddField(
            model_name="failurepattern",
            name="own_template",
            field=models.TextField(
                db_default="", help_text="the template before others were merged into the pattern"
            ),
        ),
        migrations.AddField(
            model_name="failurepattern",
            name="shape",
            field=models.SmallIntegerField(
                db_default=0, help_text="number of words of the template; 0 if it is not compared"
            ),
        ),
        migrations.AddIndex(
            model_name="failurepattern",
            index=models.Index(
                models.F("project"),
                models.F("shape"),
                models.OrderBy(models.F("last_seen"), descending=True),
                condition=models.Q(("merged_into", None)),
                name="pattern_shape",
            ),
        ),
        migrations.AddIndex(
            model_name="failurepattern",
            index=models.Index(
                condition=models.Q(("merged_into__isnull", False)),
                fields=["merged_into", "merged_at"],
                name="pattern_merged",
            ),
        ),
        migrations.RunSQL(
            """update retries_failurepattern set shape = n
            from (select id, array_length(string_to_array(template, ' '), 1) as n
                from retries_failurepattern) counted
            where counted.id = retries_failurepattern.id and n <= 60""",
            migrations.RunSQL.noop,
        ),
    ]
