"""Set the share of an agent's instructions, claims, or attempts that should end in time."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from ledger import journal
from ledger.errors import Invalid
from ledger.journal import Kind, Stamp
from ledger.models import Agent
from retries.models import AckTarget, TaskTarget
from retries.models.figures import Measure

# in percent, and in seconds: a day at most
PERCENT, WITHIN_S = (1, 99), (1, 86_400)


def set_target(
    agent: Agent, *, percent: int, within_s: int, stamp: Stamp, measure: str = Measure.ACK
) -> None:
    rows, key = find_rows(agent, measure)
    if not PERCENT[0] <= percent <= PERCENT[1]:
        raise Invalid("/percent", f"Give a share of {PERCENT[0]} to {PERCENT[1]} percent.")
    if not WITHIN_S[0] <= within_s <= WITHIN_S[1]:
        raise Invalid("/within_s", "Give a time of up to 24 hours.")
    with transaction.atomic():
        rows.update_or_create(
            **key,
            defaults={
                "percent": percent,
                "within_s": within_s,
                "set_at": stamp.at,
                "set_by_name": stamp.actor.name,
            },
        )
        record(agent, measure, {"percent": percent, "within_s": within_s}, stamp)


def remove_target(agent: Agent, *, stamp: Stamp, measure: str = Measure.ACK) -> bool:
    rows, key = find_rows(agent, measure)
    with transaction.atomic():
        count, _ = rows.filter(**key).delete()
        if count:
            record(agent, measure, {}, stamp)
    return bool(count)


def find_rows(agent: Agent, measure: str) -> tuple[QuerySet[Any], dict[str, Any]]:
    if measure not in Measure.values:
        raise Invalid("/measure", f"Give one of {', '.join(Measure.values)}.")
    if measure == Measure.ACK:
        return AckTarget.objects.all(), {"agent": agent}
    return TaskTarget.objects.all(), {"agent": agent, "measure": measure}


def record(agent: Agent, measure: str, data: dict[str, Any], stamp: Stamp) -> None:
    # Earlier versions recorded targets for acknowledgments alone, without a measure.
    of = {} if measure == Measure.ACK else {"measure": measure}
    journal.record(
        Kind.AGENT_TARGET_SET,
        subject_type="agent",
        subject_id=agent.pk,
        project_id=agent.project_id,
        agent_id=agent.pk,
        stamp=stamp,
        data=of | data,
    )
