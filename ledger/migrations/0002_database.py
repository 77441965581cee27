"""Create the database objects that Django's models can't declare."""

from django.db import migrations

POSITION = "create sequence ledger_instruction_position"

# A dedicated function, so that a later migration can let the purge through.
GUARD = """
create function ledger_event_guard() returns trigger language plpgsql as $$
begin
    raise exception 'The journal is append-only: events cannot be changed or deleted.'
        using errcode = 'restrict_violation';
end $$;
create trigger ledger_event_append_only before update or delete on ledger_event
    for each row execute function ledger_event_guard();
"""

# Rows move often and the indexes are partial on the state: vacuum early and leave free space in
# each page for updates. By default, vacuum skips the indexes when few pages of a large table hold
# dead rows; but the head of a queue is all dead rows, and every claim walks over them. The planner
# assumes that a table that was never analyzed is large, and these tables will be: after an analyze
# with only a few rows, prepared plans would read the whole table while it grows.
STORAGE = """
alter table ledger_instruction set (fillfactor = 85, vacuum_index_cleanup = on,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_threshold = 2000);
alter table ledger_event set (autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_insert_threshold = 2000, autovacuum_analyze_threshold = 2000);
alter table ledger_task set (fillfactor = 85, vacuum_index_cleanup = on,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_threshold = 2000);
alter table ledger_attempt set (fillfactor = 70, vacuum_index_cleanup = on,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 2000);
alter table ledger_breaker set (fillfactor = 50);
alter table ledger_token set (fillfactor = 50);
alter table ledger_agent set (fillfactor = 50);
"""

HISTORY = """
create view task_history as
select id, subject_id as task_id, from_state, to_state, data ->> 'error' as error, at as timestamp
from ledger_event
where subject_type = 'task' and from_state is not null and to_state is not null
"""

DEFAULT_PROJECT = "insert into ledger_project (name) values ('default') on conflict do nothing"


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial")]

    operations = [
        migrations.RunSQL(POSITION, "drop sequence ledger_instruction_position"),
        migrations.RunSQL(
            GUARD,
            "drop trigger ledger_event_append_only on ledger_event; "
            "drop function ledger_event_guard()",
        ),
        migrations.RunSQL(HISTORY, "drop view task_history"),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.RunSQL(DEFAULT_PROJECT, migrations.RunSQL.noop),
    ]
