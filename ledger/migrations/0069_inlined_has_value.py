"""Let PostgreSQL inline the check of a stored value, which a search runs for each task it reads."""

from django.db.migrations import Migration as BaseMigration
from django.db.migrations import RunSQL

# A body with a subquery is not inlined: each call then starts a statement of its own and parses
# the path again. The values are those of `ledger_stored_values`. The filter is strict, because a
# lax one would also look into arrays that are elements.
HAS_VALUE = r"""
create or replace function ledger_has_value(payload jsonb, result jsonb, key text, value text)
    returns boolean language sql immutable parallel safe as $$
    select length(value) <= 200 and value not like '%[redacted:%' and coalesce(jsonb_path_exists(
        jsonb_path_query_array(
            jsonb_path_query_array(
                case split_part(key, '.', 1) when 'payload' then payload else result end,
                ('$."' || replace(substr(key, strpos(key, '.') + 1), '.', '"."')
                    || '"[*]')::jsonpath, '{}', true
            ), '$[0 to 19]'
        ), 'strict $[*] ? (@.string() == $value)', jsonb_object(array['value', value]), true
    ), false)
$$;
"""
BEFORE = """
create or replace function ledger_has_value(payload jsonb, result jsonb, key text, value text)
    returns boolean language sql immutable parallel safe as $$
    select exists (select from ledger_stored_values(payload, result, key) v where v = value)
$$;
"""


class Migration(BaseMigration):
    dependencies = [("ledger", "0068_paused_types_hold_no_files")]

    operations = [RunSQL(HAS_VALUE, BEFORE)]
