"""Add up the counts of failures, so that a page reads a row for each pattern and agent.

The only writer of `FailureCount`, apart from the triggers that add a row for each new failure and
move the rows of a pattern that is merged.
"""

from ledger.database import sql

# One transaction adds up the patterns of this many new rows.
BATCH_SIZE = 5_000
MOST_BATCHES = 20

# Another clock adds them up already; two at once could wait for each other's rows in a circle.
LOCK = "select pg_try_advisory_xact_lock(hashtext('tenfour.failure_counts')) as is_free"
NEW = f"""select distinct pattern_id from (
    select pattern_id from retries_failurecount
    where not is_sum order by pattern_id limit {BATCH_SIZE}
) new"""
# A merge of patterns waits for this lock, or has moved the rows before they are read.
HOLD_PATTERNS = """select id from retries_failurepattern
where id = any(%(patterns)s) order by id for key share"""
ADD_UP = """with deleted as (
    delete from retries_failurecount c using (
        select distinct pattern_id, agent_id from retries_failurecount
        where not is_sum and pattern_id = any(%(patterns)s)
    ) new
    where c.pattern_id = new.pattern_id and c.agent_id = new.agent_id
    returning c.pattern_id, c.agent_id, c.failures, c.last_at
)
insert into retries_failurecount (pattern_id, agent_id, failures, last_at, is_sum)
select pattern_id, agent_id, sum(failures), max(last_at), true from deleted group by 1, 2"""


def add_up_counts() -> int:
    """Replace the new counts of each pattern and agent by their sum; return how many patterns."""
    patterns = 0
    for _ in range(MOST_BATCHES):
        found = add_up_batch()
        if not found:
            break
        patterns += found
    return patterns


@sql.atomic
def add_up_batch() -> int:
    """Add up some patterns' counts; return how many, or 0 if another clock does it."""
    if not sql.run(LOCK)[0]["is_free"]:
        return 0
    patterns = [row["pattern_id"] for row in sql.run(NEW)]
    if patterns:
        sql.run(HOLD_PATTERNS, patterns=patterns)
        sql.run(ADD_UP, patterns=patterns)
    return len(patterns)
