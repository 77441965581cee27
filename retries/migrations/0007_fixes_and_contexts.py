import django.db.models.deletion
from django.db import migrations, models

import ledger.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0011_session"),
        ("retries", "0006_delivery_tallies"),
    ]

    operations = [
        migrations.CreateModel(
            name="FixVerdict",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        db_default=ledger.models.fields.UUIDv7(),
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "signature",
                    models.CharField(
                        help_text="of the failures that the fix is for", max_length=16
                    ),
                ),
                (
                    "fix_key",
                    models.CharField(
                        help_text="hash of the fix without case and spacing", max_length=16
                    ),
                ),
                (
                    "verdict",
                    models.CharField(
                        choices=[("promoted", "Promoted"), ("retired", "Retired")], max_length=8
                    ),
                ),
                ("fix", models.TextField()),
                ("note", models.TextField(db_default="")),
                ("at", models.DateTimeField()),
                ("by_name", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="StoredContext",
            fields=[
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="stored_context",
                        serialize=False,
                        to="ledger.attempt",
                    ),
                ),
                ("text", models.TextField()),
                (
                    "signature",
                    models.CharField(
                        db_default="",
                        help_text="signature that the fix in it worked for before",
                        max_length=16,
                    ),
                ),
                (
                    "fix_key",
                    models.CharField(
                        db_default="", help_text="the fix in it, if any", max_length=16
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="grouped",
            name="known_error",
            field=models.CharField(
                help_text="name of the known error; empty if there is none",
                max_length=64,
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="retrypolicy",
            name="version",
            field=models.IntegerField(db_default=1, default=1, editable=False),
        ),
        migrations.AddIndex(
            model_name="grouped",
            index=models.Index(fields=["signature", "at"], name="grouped_signature"),
        ),
        migrations.AddField(
            model_name="fixverdict",
            name="pattern",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                to="retries.failurepattern",
            ),
        ),
        migrations.AddIndex(
            model_name="storedcontext",
            index=models.Index(
                condition=models.Q(("fix_key", ""), _negated=True),
                fields=["signature"],
                name="stored_context_fix",
            ),
        ),
        migrations.AddConstraint(
            model_name="fixverdict",
            constraint=models.UniqueConstraint(
                fields=("signature", "fix_key", "pattern"), name="fix_verdict_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="fixverdict",
            constraint=models.CheckConstraint(
                condition=models.Q(("verdict__in", ["promoted", "retired"])),
                name="fix_verdict_known",
            ),
        ),
    ]
