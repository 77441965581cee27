"""Number the journal's stream by a function, which `manage.py rebase_journal` replaces."""

from django.db import migrations

NUMBER = """
create or replace function ledger_stream_number(transaction xid8) returns xid8
    language sql immutable parallel safe return transaction;
comment on function ledger_stream_number is
    'the number in the stream of events that a transaction writes';
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0046_clock_run_ends")]

    operations = [migrations.RunSQL(NUMBER, "drop function ledger_stream_number")]
