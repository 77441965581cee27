"""Turn the sort of the sessions' saved views: `-messages` means most first, as on other lists."""

from django.db import migrations

TURN = """update ledger_savedview
set sort = case when sort like '-%' then substr(sort, 2) else '-' || sort end
where list = 'sessions' and sort <> ''"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0043_agent_waits_in_row")]

    operations = [migrations.RunSQL(TURN, TURN)]
