"""Let the clock write the words of new tasks and instructions; triggers slowed every insert.

The clock begins with the events of transactions that run now. The words of older rows are there.
"""

from django.db import migrations

WITHOUT_TRIGGERS = """
drop trigger ledger_task_words_added on ledger_task;
drop trigger ledger_instruction_words_added on ledger_instruction;
drop function ledger_add_task_words();
drop function ledger_add_instruction_words();
create or replace function ledger_change_task_words() returns trigger language plpgsql as $$
begin
    insert into ledger_taskwords (task_id, words)
    values (new.id, ledger_words(ledger_task_text(new.title, new.type, new.ref)))
    on conflict (task_id) do update set words = excluded.words;
    return null;
end $$;
insert into retries_streamcursor (name, tx, event_id, moved_at)
select 'search_words', pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    '00000000-0000-0000-0000-000000000000', now()
on conflict do nothing;
"""
WITH_TRIGGERS = """
delete from retries_streamcursor where name = 'search_words';
create function ledger_add_task_words() returns trigger language plpgsql as $$
begin
    insert into ledger_taskwords (task_id, words)
    select id, ledger_words(ledger_task_text(title, type, ref)) from added
    on conflict do nothing;
    return null;
end $$;
create trigger ledger_task_words_added after insert on ledger_task
    referencing new table as added for each statement execute function ledger_add_task_words();
create function ledger_add_instruction_words() returns trigger language plpgsql as $$
begin
    insert into ledger_instructionwords (instruction_id, words)
    select id, ledger_words(content) from added
    on conflict do nothing;
    return null;
end $$;
create trigger ledger_instruction_words_added after insert on ledger_instruction
    referencing new table as added
    for each statement execute function ledger_add_instruction_words();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0018_search_words_backfill"),
        ("retries", "0017_past_failures"),
    ]

    operations = [migrations.RunSQL(WITHOUT_TRIGGERS, WITH_TRIGGERS)]
