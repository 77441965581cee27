"""Journal what happens to channels and rules, in their project or in all that they serve."""

from typing import Any
from uuid import UUID

from ledger import journal
from ledger.journal import Kind, Stamp
from ledger.models import Project
from retries.models import Channel, NotificationRule


def record_channel(kind: Kind, channel: Channel, *, stamp: Stamp, **data: Any) -> None:
    # A channel's address may be secret, so its events leave it out.
    named = {"name": channel.name, "service": channel.service}
    for project_id in projects_of(channel):
        journal.record(
            kind,
            subject_type="channel",
            subject_id=channel.pk,
            project_id=project_id,
            stamp=stamp,
            data=named | data,
        )


def record_rule(kind: Kind, rule: NotificationRule, *, stamp: Stamp, **data: Any) -> None:
    named = {"conditions": rule.conditions, "channel": rule.channel.name}
    for project_id in projects_of(rule):
        journal.record(
            kind,
            subject_type="notification",  # the column has 16 characters
            subject_id=rule.pk,
            project_id=project_id,
            stamp=stamp,
            data=named | data,
        )


def projects_of(row: Channel | NotificationRule) -> list[UUID]:
    if row.project_id:
        return [row.project_id]
    return list(Project.objects.order_by("pk").values_list("pk", flat=True))


def list_changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name, value in after.items() if before[name] != value]
