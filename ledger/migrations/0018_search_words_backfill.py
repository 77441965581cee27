"""Add the words of the tasks and instructions that were there before the triggers."""

from django.db import migrations

BACKFILL = """
insert into ledger_taskwords (task_id, words)
select id, ledger_words(ledger_task_text(title, type, ref)) from ledger_task
on conflict do nothing;
insert into ledger_instructionwords (instruction_id, words)
select id, ledger_words(content) from ledger_instruction
on conflict do nothing;
"""


class Migration(migrations.Migration):
    """A migration of its own, so that the triggers are in force and hold no lock meanwhile."""

    dependencies = [("ledger", "0017_search_words")]

    operations = [migrations.RunSQL(BACKFILL, migrations.RunSQL.noop)]
