"""Replace old tasks with new ones, for a replay or a plan's next run."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from django.db.models import F

from ledger import needs
from ledger.database import sql
from ledger.models import Task
from ledger.moves import FINAL_STATES, need_is_met

# A met need stays with the old task, and so do the needs of tasks that are over: both are history.
TAKE_PLACES = f"""with pairs as (
    select * from unnest(%(old)s::uuid[], %(new)s::uuid[]) p(old, new)
), replaced as (
    update ledger_task t set replaced_by_id = p.new, updated_at = %(now)s, version = t.version + 1
    from pairs p where t.id = p.old returning t.id
)
update ledger_need d set need_id = p.new
from pairs p, ledger_task n, ledger_task w
where d.need_id = p.old and n.id = p.old and w.id = d.task_id
    and w.state not in ({FINAL_STATES}) and not {need_is_met("n")}"""


def release_ref(old: Task) -> None:
    """Free a task's ref and run for its replacement; call `take_places` in the same transaction."""
    # Only a task that nothing replaced holds its ref, so the old one stands for itself until
    # `take_places` names the replacement.
    Task.objects.filter(pk=old.pk, ref__isnull=False).update(replaced_by=F("pk"))


def take_places(pairs: Mapping[UUID, UUID], *, now: datetime) -> None:
    """Replace each old task by its new one, also in the needs of the tasks that wait for it.

    `pairs` has the new id by the old id. The caller holds the old tasks, which are all over.
    """
    sql.run(TAKE_PLACES, old=list(pairs), new=list(pairs.values()), now=now)
    needs.count_dependents([*pairs, *pairs.values()])
