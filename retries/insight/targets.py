"""Set the share of instructions that an agent should acknowledge in time."""

from django.db import transaction

from ledger import journal
from ledger.errors import Invalid
from ledger.journal import Kind, Stamp
from ledger.models import Agent
from retries.models import AckTarget

# in percent, and in seconds: a day at most
PERCENT, WITHIN_S = (1, 99), (1, 86_400)


def set_target(agent: Agent, *, percent: int, within_s: int, stamp: Stamp) -> None:
    if not PERCENT[0] <= percent <= PERCENT[1]:
        raise Invalid("/percent", f"Give a share of {PERCENT[0]} to {PERCENT[1]} percent.")
    if not WITHIN_S[0] <= within_s <= WITHIN_S[1]:
        raise Invalid("/within_s", "Give a time of up to 24 hours.")
    with transaction.atomic():
        AckTarget.objects.update_or_create(
            agent=agent,
            defaults={
                "percent": percent,
                "within_s": within_s,
                "set_at": stamp.at,
                "set_by_name": stamp.actor.name,
            },
        )
        record(agent, {"percent": percent, "within_s": within_s}, stamp)


def remove_target(agent: Agent, *, stamp: Stamp) -> bool:
    with transaction.atomic():
        count, _ = AckTarget.objects.filter(agent=agent).delete()
        if count:
            record(agent, {}, stamp)
    return bool(count)


def record(agent: Agent, data: dict[str, int], stamp: Stamp) -> None:
    journal.record(
        Kind.AGENT_TARGET_SET,
        subject_type="agent",
        subject_id=agent.pk,
        project_id=agent.project_id,
        agent_id=agent.pk,
        stamp=stamp,
        data=data,
    )
