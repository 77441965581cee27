"""Partition the journal by month on its id, which begins with its creation time.

The existing table becomes the first partition as it is: no row is written again. It holds all
events until the end of the next month. `ledger.journal_months` adds the months that follow.
"""

from django.db import migrations

# Statements bound the ids of events with these. Their bodies are immutable, so that PostgreSQL can
# choose partitions when it plans a statement.
FLOORS = """
create or replace function ledger_event_floor(at timestamptz, slack interval default '0')
    returns uuid language sql immutable parallel safe as $$
select (lpad(to_hex(greatest(0, floor(extract(epoch from
    coalesce(at, timestamptz '1970-01-01 00:00+00') at time zone 'UTC' - slack) * 1000))::bigint),
    12, '0') || repeat('0', 20))::uuid
$$;
comment on function ledger_event_floor is
    'the lowest id of events since a time; of all events where the time is not known';
"""

# Settings of storage, and triggers on TRUNCATE, hold for one partition only.
ADD_PARTITION = """
create or replace function ledger_event_add_partition(name text, low uuid, high uuid)
    returns void language plpgsql as $$
begin
    execute format('create table %I (like ledger_event including all) with (
        autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 2000,
        autovacuum_analyze_threshold = 2000)', name);
    execute format('create trigger ledger_event_no_truncate before truncate on %I
        for each statement execute function ledger_event_guard()', name);
    execute format('alter table ledger_event attach partition %I for values from (%s) to (%s)',
        name, coalesce(quote_literal(low), 'minvalue'), coalesce(quote_literal(high), 'maxvalue'));
end $$;
"""

# A check that is valid already lets the table become a partition without another scan of it.
BOUND = """
do $$
declare
    newest timestamptz := (
        select uuid_extract_timestamp(id) from ledger_event order by id desc limit 1);
    high uuid := ledger_event_floor(
        (date_trunc('month', greatest(now(), newest) at time zone 'UTC') + interval '2 months')
        at time zone 'UTC');
begin
    if exists (select from pg_partitioned_table where partrelid = 'ledger_event'::regclass) then
        return;
    end if;
    alter table ledger_event drop constraint if exists ledger_event_bound,
        drop constraint if exists ledger_event_version;
    alter table ledger_event add constraint ledger_event_version
        check (uuid_extract_version(id) = 7) not valid;
    execute format('alter table ledger_event add constraint ledger_event_bound
        check (id < %L) not valid', high);
end $$
"""
VALIDATE = """
do $$
begin
    if not exists (select from pg_partitioned_table where partrelid = 'ledger_event'::regclass) then
        alter table ledger_event validate constraint ledger_event_version,
            validate constraint ledger_event_bound;
    end if;
end $$
"""

SWAP = """
do $$
declare
    high uuid;
    name text;
begin
    if exists (select from pg_partitioned_table where partrelid = 'ledger_event'::regclass) then
        return;
    end if;
    lock table ledger_event in access exclusive mode;
    select substring(pg_get_constraintdef(oid) from '[0-9a-f]{8}(?:-[0-9a-f]+){4}') into high
    from pg_constraint
    where conrelid = 'ledger_event'::regclass and conname = 'ledger_event_bound';
    name := 'ledger_event_before_' || to_char(
        to_timestamp(('x' || left(replace(high::text, '-', ''), 12))::bit(48)::bigint / 1000)
        at time zone 'UTC', 'YYYYMM');

    execute format('alter table ledger_event rename to %I', name);
    execute format('alter index ledger_event_pkey rename to %I', name || '_pkey');
    execute format('alter index event_stream rename to %I', name || '_stream');
    execute format('alter index event_subject rename to %I', name || '_subject');
    execute format('alter index event_people rename to %I', name || '_people');
    execute format('alter index event_at rename to %I', name || '_at');
    execute format('drop trigger ledger_event_append_only on %I', name);

    execute format('create table ledger_event (like %I including defaults including storage
        including compression including comments) partition by range (id)', name);
    alter table ledger_event
        add constraint ledger_event_pkey primary key (id),
        add constraint ledger_event_version check (uuid_extract_version(id) = 7);
    create index event_stream on ledger_event (tx, id);
    create index event_subject on ledger_event (subject_id, id);
    create index event_people on ledger_event (id) where actor_type = 'user';
    create index event_at on ledger_event using brin (at)
        with (pages_per_range = 32, autosummarize = on);
    create trigger ledger_event_append_only before update or delete on ledger_event
        for each row execute function ledger_event_guard();
    create trigger ledger_event_no_truncate before truncate on ledger_event
        for each statement execute function ledger_event_guard();

    execute format('alter table ledger_event attach partition %I for values from (minvalue)
        to (%L)', name, high);
    execute format('alter table %I drop constraint ledger_event_bound', name);
    perform ledger_event_add_partition('ledger_event_tail', high, null);

    create or replace view task_history as
    select id, subject_id as task_id, from_state, to_state, data ->> 'error' as error,
        at as timestamp
    from ledger_event
    where subject_type = 'task' and from_state is not null and to_state is not null;
end $$
"""


# This writes all rows again.
UNDO = """
do $$
begin
    lock table ledger_event in access exclusive mode;
    create table ledger_event_whole (like ledger_event including defaults including storage
        including compression including comments);
    insert into ledger_event_whole select * from ledger_event;
    drop view task_history;
    drop table ledger_event;
    alter table ledger_event_whole rename to ledger_event;
    alter table ledger_event add constraint ledger_event_pkey primary key (id);
    alter table ledger_event set (autovacuum_vacuum_insert_scale_factor = 0.05,
        autovacuum_vacuum_insert_threshold = 2000, autovacuum_analyze_threshold = 2000);
    create index event_stream on ledger_event (tx, id);
    create index event_subject on ledger_event (subject_id, id);
    create index event_people on ledger_event (id) where actor_type = 'user';
    create index event_at on ledger_event using brin (at)
        with (pages_per_range = 32, autosummarize = on);
    create trigger ledger_event_append_only before update or delete on ledger_event
        for each row execute function ledger_event_guard();
    create trigger ledger_event_no_truncate before truncate on ledger_event
        for each statement execute function ledger_event_guard();
    create view task_history as
    select id, subject_id as task_id, from_state, to_state, data ->> 'error' as error,
        at as timestamp
    from ledger_event
    where subject_type = 'task' and from_state is not null and to_state is not null;
end $$
"""


class Migration(migrations.Migration):
    # Each step commits: the scan of the existing table takes no lock that stops moves. All steps
    # can run again after one that failed.
    atomic = False
    dependencies = [("ledger", "0021_saved_view")]

    operations = [
        migrations.RunSQL(FLOORS, "drop function ledger_event_floor"),
        migrations.RunSQL(ADD_PARTITION, "drop function ledger_event_add_partition"),
        migrations.RunSQL(BOUND, migrations.RunSQL.noop),
        migrations.RunSQL(VALIDATE, migrations.RunSQL.noop),
        migrations.RunSQL(SWAP, UNDO),
    ]
