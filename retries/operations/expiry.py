"""Delete operations that ended long ago, with the results of their rows."""

from datetime import datetime

from ledger.database import sql
from ledger.values.ids import first_id
from retries.models.operation import UNDER_WAY

ITEMS_DELETED = 1000
# an id begins with the time of its row's creation
OLDEST = f"""select id from retries_operation
where id < %(bound)s and ended_at < %(before)s and state not in ({sql.quoted(UNDER_WAY)})
order by id limit 1"""
DELETE_ITEMS = """delete from retries_operationitem where id = any(array(
    select id from retries_operationitem where operation_id = %(id)s limit %(most)s::int))
returning 1 as one"""


def delete_oldest(*, before: datetime) -> int:
    """Delete the oldest operation that ended before a time; return how many went, one or none."""
    rows = sql.run(OLDEST, bound=first_id(before), before=before)
    for row in rows:
        while sql.run(DELETE_ITEMS, id=row["id"], most=ITEMS_DELETED):
            pass
        sql.run("delete from retries_operation where id = %(id)s", id=row["id"])
    return len(rows)
