"""Let the search find failures by their headline and the other telling lines of their output.

A run that was cut short goes on where it stopped. The clock fills the column of older failures.
"""

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.migrations import AddField, RemoveIndex, RunSQL
from django.db.migrations import Migration as BaseMigration
from django.db.models import Func, Q

from ledger.migrations._steps import build_beside_writers

COLUMN = "alter table ledger_failure add column if not exists telling_lines text"
NO_COLUMN = "alter table ledger_failure drop column telling_lines"
FUNCTION = """
create or replace function ledger_failure_words(text, text, text, text) returns tsvector
    language sql immutable parallel safe
    -- each part has a limit of its own, so that a long message leaves room
    return ledger_failure_words($1, $2, $3) || ledger_words(coalesce($4, ''))
"""
NO_FUNCTION = "drop function ledger_failure_words(text, text, text, text)"


class Migration(BaseMigration):
    atomic = False
    dependencies = [("ledger", "0044_session_view_sort")]

    operations = [
        RunSQL(
            COLUMN,
            NO_COLUMN,
            state_operations=[
                AddField(
                    "failure",
                    "telling_lines",
                    models.TextField(
                        null=True,
                        help_text="headline, then other telling lines; null: not computed yet",
                    ),
                ),
            ],
        ),
        RunSQL(FUNCTION, NO_FUNCTION),
        *build_beside_writers(
            "failure",
            models.Index(fields=["id"], name="failure_unread", condition=Q(telling_lines=None)),
        ),
        *build_beside_writers(
            "failure",
            GinIndex(
                Func("type", "code", "message", "telling_lines", function="ledger_failure_words"),
                name="failure_search",
            ),
        ),
        # The release before searches by this index, so a later migration drops it.
        RunSQL(
            RunSQL.noop,
            RunSQL.noop,
            state_operations=[RemoveIndex("failure", "failure_words")],
        ),
    ]
