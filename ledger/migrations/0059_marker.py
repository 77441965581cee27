"""Store markers: deploys and other changes, drawn on charts of time."""

from django.db import models
from django.db.migrations import CreateModel
from django.db.migrations import Migration as BaseMigration
from django.db.models.deletion import CASCADE
from django.db.models.functions import Now

from ledger.migrations._steps import key, uuid7


class Migration(BaseMigration):
    dependencies = [("ledger", "0058_exclusive_files_indexes")]

    operations = [
        CreateModel(
            "Marker",
            [
                ("id", uuid7()),
                ("project", key("ledger.project", CASCADE)),
                ("name", models.CharField(max_length=120)),
                (
                    "kind",
                    models.CharField(
                        help_text="what happened, such as deploy or change", max_length=32
                    ),
                ),
                ("at", models.DateTimeField()),
                (
                    "link",
                    models.CharField(
                        db_default="", help_text="a page about it, or empty", max_length=500
                    ),
                ),
                ("text", models.CharField(db_default="", max_length=2000)),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["project", "at"], name="marker_of_project"),
                    models.Index(fields=["at"], name="marker_at"),
                ],
            },
        ),
    ]
