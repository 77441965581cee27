"""Store the keys of payloads and results that a project searches, and digests of their values."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.migrations import AddField, CreateModel, RunSQL
from django.db.migrations import Migration as BaseMigration
from django.db.models.deletion import CASCADE

# A path reads through arrays, so one key has the values of all elements.
FUNCTIONS = r"""
create function ledger_stored_values(payload jsonb, result jsonb, key text) returns setof text
    language sql immutable parallel safe as $$
    select distinct v #>> '{}' from (
        select v from jsonb_path_query(
            case split_part(key, '.', 1) when 'payload' then payload else result end,
            ('$."' || replace(substr(key, strpos(key, '.') + 1), '.', '"."') || '"[*]')::jsonpath,
            '{}', true
        ) v limit 20
    ) found
    where jsonb_typeof(v) in ('string', 'number', 'boolean') and length(v #>> '{}') <= 200
        and v #>> '{}' not like '%[redacted:%'
$$;
comment on function ledger_stored_values is
    'the searched values at a key such as payload.order: up to 20 short ones, none redacted';
create function ledger_has_value(payload jsonb, result jsonb, key text, value text) returns boolean
    language sql immutable parallel safe as $$
    select exists (select from ledger_stored_values(payload, result, key) v where v = value)
$$;
create function ledger_value_digest(project uuid, key text, value text) returns bytea
    language sql immutable parallel safe as $$
    select substr(sha256(convert_to(project || '/' || key || ':' || value, 'UTF8')), 1, 8)
$$;
"""
NO_FUNCTIONS = """
drop function ledger_value_digest(uuid, text, text);
drop function ledger_has_value(jsonb, jsonb, text, text);
drop function ledger_stored_values(jsonb, jsonb, text);
"""


class Migration(BaseMigration):
    dependencies = [("ledger", "0065_list_columns")]

    operations = [
        AddField(
            "project",
            "search_keys",
            ArrayField(
                models.CharField(max_length=100),
                db_default=[],
                default=list,
                editable=False,
                help_text="the keys of payloads and results that tasks are searched by",
            ),
        ),
        AddField(
            "project",
            "fills_values_before",
            models.UUIDField(
                editable=False,
                help_text="the tasks before this id are not yet searched by the keys",
                null=True,
            ),
        ),
        RunSQL(FUNCTIONS, NO_FUNCTIONS),
        CreateModel(
            "TaskValue",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "digest",
                        "task_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("digest", models.BinaryField(max_length=8)),
                (
                    "task",
                    models.ForeignKey(
                        "ledger.task",
                        CASCADE,
                        db_constraint=False,
                        related_name="stored_values",
                    ),
                ),
            ],
        ),
    ]
