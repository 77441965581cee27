"""Keep the words of tasks and instructions for the search; triggers write them from now on."""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
from django.db import migrations, models

# like ledger/search_words.py, which splits what is searched
FUNCTIONS = """
create function ledger_words(text) returns tsvector language sql immutable parallel safe as $$
    select to_tsvector('simple', regexp_replace(left($1, 4000), '[^[:alnum:]]+', ' ', 'g'))
$$;
create function ledger_failure_words(text, text, text) returns tsvector
    language sql immutable parallel safe
    -- resolved now: an index is built without a search path
    return ledger_words($1 || ' ' || $2 || ' ' || $3);
create function ledger_task_text(title text, type text, ref text) returns text
    language sql immutable parallel safe as $$
    select title || ' ' || type || ' ' || coalesce(ref, '')
$$;
"""
TRIGGERS = """
create function ledger_add_task_words() returns trigger language plpgsql as $$
begin
    insert into ledger_taskwords (task_id, words)
    select id, ledger_words(ledger_task_text(title, type, ref)) from added;
    return null;
end $$;
create trigger ledger_task_words_added after insert on ledger_task
    referencing new table as added for each statement execute function ledger_add_task_words();
create function ledger_change_task_words() returns trigger language plpgsql as $$
begin
    update ledger_taskwords set words = ledger_words(ledger_task_text(new.title, new.type, new.ref))
    where task_id = new.id;
    return null;
end $$;
create trigger ledger_task_words_changed after update of title, type, ref on ledger_task
    for each row
    when ((old.title, old.type, old.ref) is distinct from (new.title, new.type, new.ref))
    execute function ledger_change_task_words();
create function ledger_add_instruction_words() returns trigger language plpgsql as $$
begin
    insert into ledger_instructionwords (instruction_id, words)
    select id, ledger_words(content) from added;
    return null;
end $$;
create trigger ledger_instruction_words_added after insert on ledger_instruction
    referencing new table as added
    for each statement execute function ledger_add_instruction_words();
"""
NO_TRIGGERS = """
drop trigger ledger_task_words_added on ledger_task;
drop trigger ledger_task_words_changed on ledger_task;
drop trigger ledger_instruction_words_added on ledger_instruction;
drop function ledger_add_task_words();
drop function ledger_change_task_words();
drop function ledger_add_instruction_words();
"""
NO_FUNCTIONS = """
drop function ledger_failure_words(text, text, text);
drop function ledger_words(text);
drop function ledger_task_text(text, text, text);
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0016_instruction_delivered_to")]

    operations = [
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
        migrations.CreateModel(
            name="InstructionWords",
            fields=[
                (
                    "instruction",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="search_words",
                        serialize=False,
                        to="ledger.instruction",
                    ),
                ),
                ("words", django.contrib.postgres.search.SearchVectorField()),
            ],
        ),
        migrations.CreateModel(
            name="TaskWords",
            fields=[
                (
                    "task",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="search_words",
                        serialize=False,
                        to="ledger.task",
                    ),
                ),
                ("words", django.contrib.postgres.search.SearchVectorField()),
            ],
        ),
        migrations.AddIndex(
            model_name="failure",
            index=django.contrib.postgres.indexes.GinIndex(
                models.Func("type", "code", "message", function="ledger_failure_words"),
                name="failure_words",
            ),
        ),
        migrations.AddIndex(
            model_name="instructionwords",
            index=django.contrib.postgres.indexes.GinIndex(
                fields=["words"], name="instruction_words"
            ),
        ),
        migrations.AddIndex(
            model_name="taskwords",
            index=django.contrib.postgres.indexes.GinIndex(fields=["words"], name="task_words"),
        ),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
