"""Add the proof of tasks that were verified before proofs were stored; others count as claimed."""

from django.db import migrations

BACKFILL = """
update ledger_task t set proof = 'proven'
from ledger_attempt a
where t.state = 'done' and t.proof is null and a.task_id = t.id and a.number = t.attempts
    and a.outcome = 'success' and a.decision ->> 'reason' = 'verified'
"""


class Migration(migrations.Migration):
    """A migration of its own, so that it holds no lock on the table's columns meanwhile."""

    dependencies = [("ledger", "0036_proof")]

    operations = [migrations.RunSQL(BACKFILL, migrations.RunSQL.noop)]
