"""Let forms of pages have idempotency keys, which belong to no token."""

from django.db.migrations import AddConstraint, AlterField
from django.db.migrations import Migration as BaseMigration
from django.db.models import CASCADE, ForeignKey, Q, UniqueConstraint


class Migration(BaseMigration):
    dependencies = [("ledger", "0062_attempt_trace")]

    operations = [
        AlterField(
            "idempotencykey",
            "token",
            ForeignKey(
                "ledger.token",
                CASCADE,
                db_index=False,
                help_text="null: a form of a page",
                null=True,
            ),
        ),
        AddConstraint(
            "idempotencykey",
            UniqueConstraint(
                condition=Q(token=None), fields=["key"], name="idempotency_key_of_form_unique"
            ),
        ),
    ]
