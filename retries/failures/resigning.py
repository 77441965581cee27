"""Sign the failures that people gave fixes for again, after the rules of signatures have changed.

Only they matter: a fix counts for the failures of its signature. The results of attempts that
Tenfour told of a fix, and those that are kept of deleted tasks, stay with the older signature.
"""

from django.db import transaction
from psycopg.types.json import Jsonb

from ledger.database import sql
from ledger.models import Failure
from retries.failures.fixes.statements import select_answers
from retries.failures.signatures import VERSION, sign

MOST_FAILURES = 200  # that one run signs
OLD = f"""select g.failure_id, g.pattern_id, g.signature
from (
    select distinct task_id from ({select_answers("true")}) newest
) answered
join ledger_failure f using (task_id)
join retries_grouped g on g.failure_id = f.id
where left(g.signature, {len(VERSION)}) <> '{VERSION}'
order by f.id desc limit {MOST_FAILURES}
for update of g skip locked"""
SIGN = """with signed as (
    update retries_grouped set signature = %(signature)s, entities = %(entities)s
    where failure_id = %(failure)s
)
insert into retries_fixverdict
    (id, pattern_id, signature, fix_key, verdict, fix, note, at, by_name)
select gen_random_uuid(), pattern_id, %(signature)s, fix_key, verdict, fix, note, at, by_name
from retries_fixverdict
where pattern_id = %(pattern)s and signature = %(old)s
on conflict (signature, fix_key, pattern_id) do nothing"""


@transaction.atomic
def sign_old_failures() -> int:
    """Sign failures of the newest answered tasks again; return how many."""
    # A verdict about a fix moves along: it has an effect only where a person gave that fix.
    rows = sql.run(OLD)
    failures = Failure.objects.in_bulk([row["failure_id"] for row in rows])
    for row in rows:
        signature = sign(*failures[row["failure_id"]].texts)
        sql.run(
            SIGN,
            failure=row["failure_id"],
            pattern=row["pattern_id"],
            old=row["signature"],
            signature=signature.key,
            entities=Jsonb(list(signature.entities)),
        )
    return len(rows)
