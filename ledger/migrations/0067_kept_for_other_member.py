"""Add the function that tells whether a failed task is left to another member of its pool.

As a part of a claim's statement, its queries took time in each claim; few claims call the function.
"""

from django.db.migrations import Migration as BaseMigration
from django.db.migrations import RunSQL

CREATE = """
create or replace function ledger_kept_for_other_member(
    task uuid, pool uuid, agent uuid, at timestamptz, silent interval
) returns boolean language plpgsql stable cost 1000 as $$
begin
    return agent = (
            select f.agent_id from ledger_attempt f
            where f.task_id = task and f.outcome = 'failure' order by f.number desc limit 1)
        and exists (
            select from ledger_poolmember s join ledger_agent o on o.id = s.agent_id
            where s.pool_id = pool and o.id <> agent and not o.paused
                and (o.waits_until is null or o.waits_until <= at)
                and not exists (select from ledger_breaker b
                    where b.agent_id = o.id and b.state <> 'closed')
                and (o.last_seen_at > at - silent or exists (
                    select from ledger_attempt l where l.agent_id = o.id
                        and l.outcome is null and l.lease_expires_at > at)));
end $$;
comment on function ledger_kept_for_other_member is
    'whether the agent was the last to fail the task, and another member of the pool works and may '
    'claim it once it has room';
"""
DROP = "drop function ledger_kept_for_other_member"


class Migration(BaseMigration):
    dependencies = [("ledger", "0066_search_keys")]

    operations = [RunSQL(CREATE, DROP)]
