"""Seed a journal that goes back a year, with a partition for each month."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

# Four events of each subject, spread evenly over the last year.
YEAR = """
insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id, to_state,
    actor_type, actor_name)
select uuidv7(at + interval '1 s' * k - now()), at + interval '1 s' * k, a.project_id,
    'task.' || (array['created', 'claimed', 'due', 'completed'])[k], 'task', subject, a.id,
    (array['queued', 'running', null, 'done'])[k], 'token', 'bench'
from (
    select g, at, uuidv7(at - now()) as subject
    from generate_series(1, %(count)s::int / 4) g
    cross join lateral (
        select now() - interval '365 days' * (1 - 4 * g::float / %(count)s) - interval '1 h' as at
    ) x
) s
join (select *, row_number() over (order by name) - 1 as n, count(*) over () as of
      from ledger_agent) a on a.n = s.g %% a.of
cross join generate_series(1, 4) k
"""


def lay_out_year(execute: Callable[..., Any]) -> None:
    """Give an empty journal partitions for a year of months, and those ahead."""
    from django.utils import timezone

    from ledger.journal_storage import months as journal_months
    from ledger.journal_storage.months import TAIL, add_partition, month_of

    now = timezone.now()
    for each in journal_months.list_partitions():
        execute(f"drop table {each.name}")
    start = month_of(now - timedelta(days=366))
    add_partition(f"ledger_event_before_{start:%Y%m}", None, start)
    add_partition(TAIL, start, None)
    while journal_months.list_partitions()[-1].start <= now:  # type: ignore[operator]
        month = journal_months.list_partitions()[-1].start
        assert month
        journal_months.make_months(now=month, ahead=0)
    journal_months.make_months(now=now)
