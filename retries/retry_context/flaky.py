"""Find checks that gave two results on the same files."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from ledger.database import sql
from retries.retry_context.elements import one_line

COMMAND_LENGTH = 200
# the newest attempts of a plan, or of a task on its own, that a check is compared with
MOST_COMPARED = 200

# A check that passed on the files on which it failed, or the reverse. The agent's word is no check.
READ = f"""select distinct on (a.id) a.id, a.number, mine ->> 'command' as command,
    (mine ->> 'exit_code')::int as exit_code, (other ->> 'exit_code')::int as other_code,
    o.number as other_number, o.task_id = a.task_id as is_own
from ledger_attempt a join ledger_task t on t.id = a.task_id
cross join lateral coalesce(t.payload -> 'verify' ->> 'expect_exit', '0') expected(code)
cross join lateral jsonb_array_elements(a.checks) with ordinality as m(mine, place)
cross join lateral (
    select x.id, x.number, x.task_id, x.checks
    from (
        select t.id union all
        select p.id from ledger_task p where p.plan_id = t.plan_id and p.id <> t.id
    ) p join ledger_attempt x on x.task_id = p.id
    where x.id <= a.id and x.checks is not null
    order by x.id desc limit {MOST_COMPARED}
) o
cross join lateral jsonb_array_elements(o.checks) with ordinality as n(other, place)
where a.id = any(%(ids)s) and a.checks is not null and (o.id < a.id or n.place < m.place)
    and mine ->> 'command' = other ->> 'command' and mine ->> 'cwd' = other ->> 'cwd'
    and mine -> 'tree' ->> 'commit' = other -> 'tree' ->> 'commit'
    and mine -> 'tree' ->> 'diff' is not distinct from other -> 'tree' ->> 'diff'
    and 'agent' not in (mine ->> 'seen_by', other ->> 'seen_by')
    and (mine ->> 'exit_code' = expected.code) <> (other ->> 'exit_code' = expected.code)
order by a.id, m.place desc, o.id desc, n.place desc"""


@dataclass(frozen=True, slots=True)
class FlakyCheck:
    """A check's two exit codes on the same files; `before` is where the other one came from."""

    attempt: int
    command: str
    exit_code: int
    other_code: int
    before: str

    def __str__(self) -> str:
        """Return the sentence about it.

        >>> str(FlakyCheck(2, "make test", 1, 0, "in attempt 1")).partition(": ")[2]
        '`make test` ended with 0 in attempt 1, and with 1 in attempt 2. The check is flaky.'
        """
        command = one_line(self.command, COMMAND_LENGTH)
        return (
            f"The same files gave another result before: `{command}` ended with "
            f"{self.other_code} {self.before}, and with {self.exit_code} in attempt "
            f"{self.attempt}. The check is flaky."
        )


def find_flaky_checks(attempt_ids: Iterable[UUID]) -> dict[UUID, FlakyCheck]:
    """Return by attempt a check that gave another result on the same files, there or earlier."""
    ids = list(attempt_ids)
    found = {}
    for row in sql.run(READ, ids=ids) if ids else ():
        before = f"in attempt {row['other_number']}" if row["is_own"] else "in another task"
        found[row["id"]] = FlakyCheck(
            row["number"], row["command"], row["exit_code"], row["other_code"], before
        )
    return found
