"""Count failures by pattern and agent: triggers keep the counts from now on.

Triggers also count what processes of an earlier version report, and what they merge.
"""

import django.db.models.deletion
from django.db import migrations, models

import ledger.models.fields

# Nothing is added, merged or deleted between the triggers and the counts of what is there. The
# order is that of a report, which locks the failures before it writes to a pattern.
TRIGGERS = """
lock table retries_grouped in share row exclusive mode;
create function retries_count_failures() returns trigger language plpgsql as $$
begin
    insert into retries_failurecount (pattern_id, agent_id, failures, last_at)
    select pattern_id, agent_id, count(*), max(at) from added group by 1, 2;
    return null;
end $$;
create trigger retries_failures_counted after insert on retries_grouped
    referencing new table as added for each statement execute function retries_count_failures();
create function retries_move_failure_counts() returns trigger language plpgsql as $$
begin
    -- the kept pattern may have a sum of its own: the clock adds up what is new
    update retries_failurecount set pattern_id = new.merged_into_id, is_sum = false
    where pattern_id = new.id;
    return null;
end $$;
create trigger retries_failure_counts_moved after update of merged_into_id
    on retries_failurepattern for each row
    when (new.merged_into_id is distinct from old.merged_into_id and new.merged_into_id is not null)
    execute function retries_move_failure_counts();
insert into retries_failurecount (pattern_id, agent_id, failures, last_at, is_sum)
select pattern_id, agent_id, sum(failures), max(last_at), true from (
    select pattern_id, agent_id, count(*) as failures, max(at) as last_at
    from retries_grouped group by 1, 2
    union all
    select pattern_id, agent_id, failures, last_at from retries_pastfailures
) counted group by 1, 2;
"""
NO_TRIGGERS = """
drop trigger retries_failure_counts_moved on retries_failurepattern;
drop function retries_move_failure_counts();
drop trigger retries_failures_counted on retries_grouped;
drop function retries_count_failures();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0028_task_retried"),
        ("retries", "0018_search_words_by_clock"),
    ]

    operations = [
        migrations.CreateModel(
            name="FailureCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "pattern_id",
                        "agent_id",
                        "id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "id",
                    models.UUIDField(db_default=ledger.models.fields.UUIDv7(), editable=False),
                ),
                ("failures", models.IntegerField()),
                ("last_at", models.DateTimeField()),
                (
                    "is_sum",
                    models.BooleanField(
                        db_default=False, help_text="whether the clock has added it up"
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="ledger.agent",
                    ),
                ),
                (
                    "pattern",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="failure_counts",
                        to="retries.failurepattern",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_sum", False)),
                        fields=["pattern"],
                        name="failure_count_new",
                    )
                ],
            },
        ),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
