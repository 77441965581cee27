"""Let forms of pages have idempotency keys, which belong to no token."""

from typing import ClassVar

from django.db.migrations import AddConstraint, AlterField, RunSQL, SeparateDatabaseAndState
from django.db.migrations import Migration as BaseMigration
from django.db.models import CASCADE, ForeignKey, Q, UniqueConstraint

NAME = "idempotency_key_of_form_unique"
DROP = f"drop index concurrently if exists {NAME}"
CREATE = f"""create unique index concurrently {NAME} on ledger_idempotencykey (key)
where token_id is null"""
WAIT, NO_LONG_WAIT = "set lock_timeout = 0", "reset lock_timeout"


class Migration(BaseMigration):
    atomic = False
    dependencies: ClassVar = [("ledger", "0062_attempt_trace")]

    operations: ClassVar = [
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
        # The index is built beside writers, as by `build_beside_writers`.
        RunSQL(WAIT, NO_LONG_WAIT),
        RunSQL(DROP, RunSQL.noop),
        SeparateDatabaseAndState(
            [RunSQL(CREATE, DROP)],
            [
                AddConstraint(
                    "idempotencykey",
                    UniqueConstraint(condition=Q(token=None), fields=["key"], name=NAME),
                )
            ],
        ),
        RunSQL(NO_LONG_WAIT, WAIT),
    ]
