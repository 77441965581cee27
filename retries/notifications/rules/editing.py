"""Create, change and delete the rules that say what channels for people are told."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import time
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django.contrib.auth.models import User
from django.db import transaction

from ledger.database import sql
from ledger.errors import Invalid, NotFound, VersionMismatch
from ledger.journal import Kind, Stamp
from ledger.models import Agent, Plan, Project
from retries.models import Channel, NotificationRule, QuietHours
from retries.models.notification_rule import RepeatUntil
from retries.notifications import journaling
from retries.notifications.rules.conditions import CONDITIONS, DEFAULTS

SEVERITIES = ("", "low", "normal", "high")
CAP, DEFAULT_CAP = (1, 1000), 10  # messages an hour
REPEAT_S = (300, 604_800)
SECOND_AFTER_S = (300, 604_800)
MOST_CONDITIONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRuleSpec:
    """The fields of a rule that a person or a program sets."""

    conditions: tuple[str, ...]
    channel: Channel
    agent: Agent | None = None
    plan: Plan | None = None
    severity: str = ""
    only_on_change: bool = True
    cap_per_hour: int | None = None
    repeat_s: int | None = None
    repeat_until: str = RepeatUntil.ANSWERED
    quiet_from: time | None = None
    quiet_until: time | None = None
    timezone: str = "UTC"
    severe_breaks_quiet: bool = True
    second_channel: Channel | None = None
    second_after_s: int | None = None
    enabled: bool = True

    @property
    def columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {
            "conditions": list(self.conditions)
        }


def spec_of(rule: NotificationRule) -> NotificationRuleSpec:
    names = NotificationRuleSpec.__slots__
    values = {name: getattr(rule, name) for name in names}
    return NotificationRuleSpec(**values | {"conditions": tuple(rule.conditions)})


def create_rule(
    spec: NotificationRuleSpec, *, project: Project | None, stamp: Stamp
) -> NotificationRule:
    check_rule(spec, project)
    with transaction.atomic():
        rule = NotificationRule.objects.create(
            project=project,
            enabled_at=stamp.at,
            changed_by_name=stamp.actor.name,
            created_by_type=stamp.actor.type,
            created_by_name=stamp.actor.name,
            created_at=stamp.at,
            updated_at=stamp.at,
            **spec.columns,
        )
        journaling.record_rule(Kind.NOTIFICATION_RULE_CREATED, rule, stamp=stamp)
    return rule


def create_default_rules(channel: Channel, *, stamp: Stamp) -> None:
    """Create the default rules for a channel, unless its project has rules.

    Call it in the transaction that inserts the channel.
    """
    # One first channel after the other, so that the rules are not there twice.
    sql.run("select pg_advisory_xact_lock(hashtext('tenfour.default_rules'))")
    if NotificationRule.objects.filter(project=channel.project_id).exists():
        return
    for condition in DEFAULTS:
        spec = NotificationRuleSpec(
            conditions=(condition,), channel=channel, cap_per_hour=DEFAULT_CAP
        )
        create_rule(spec, project=channel.project, stamp=stamp)


def update_rule(
    rule_id: UUID, *, version: int | None, stamp: Stamp, **changes: Any
) -> NotificationRule:
    """Change a rule's values; keep the values that are not named.

    `version` is the version that the caller has read; None changes any version.
    """
    with transaction.atomic():
        rule = NotificationRule.objects.select_for_update(of=("self",)).filter(pk=rule_id).first()
        if rule is None:
            raise NotFound(f"There is no notification rule {rule_id} here.")
        if version is not None and rule.version != version:
            raise VersionMismatch(
                f"The rule is at version {rule.version}, not {version}.", current=rule.version
            )
        was_enabled, before = rule.enabled, spec_of(rule)
        spec = replace(before, **changes)
        check_rule(spec, rule.project)
        for name, value in spec.columns.items():
            setattr(rule, name, value)
        if rule.enabled and not was_enabled:
            rule.enabled_at = stamp.at
        rule.version += 1
        rule.updated_at, rule.changed_by_name = stamp.at, stamp.actor.name
        rule.save()
        if changed := journaling.list_changed(before.columns, spec.columns):
            journaling.record_rule(
                Kind.NOTIFICATION_RULE_UPDATED,
                rule,
                stamp=stamp,
                changed=changed,
                enabled=rule.enabled,
            )
        return rule


@transaction.atomic
def delete_rule(rule_id: UUID, *, stamp: Stamp) -> None:
    # The deliveries that it caused stay.
    found = NotificationRule.objects.select_for_update(of=("self",)).filter(pk=rule_id)
    if rule := found.select_related("channel").first():
        journaling.record_rule(Kind.NOTIFICATION_RULE_DELETED, rule, stamp=stamp)
        rule.delete()


def set_quiet_hours(
    user: User, *, starts: time | None, ends: time | None, timezone: str = "UTC"
) -> QuietHours | None:
    """Set when a person's channels stay quiet; None ends the quiet hours."""
    if starts is None or ends is None:
        QuietHours.objects.filter(user=user).delete()
        return None
    check_clock_times({"starts": starts, "ends": ends})
    check_timezone(timezone)
    return QuietHours.objects.update_or_create(
        user=user, defaults={"starts": starts, "ends": ends, "timezone": timezone}
    )[0]


# ---- checks


def check_rule(spec: NotificationRuleSpec, project: Project | None) -> None:
    check_conditions(spec.conditions)
    check_channel(spec.channel, project, "/channel")
    if spec.second_channel:
        check_channel(spec.second_channel, project, "/second_channel")
        if spec.second_channel.pk == spec.channel.pk:
            raise Invalid("/second_channel", "The second channel must not be the first.")
    if (spec.second_channel is None) != (spec.second_after_s is None):
        raise Invalid("/second_after_s", "second_channel and second_after_s need each other.")
    for name, of in (("agent", spec.agent), ("plan", spec.plan)):
        if of is not None and project is not None and of.project_id != project.pk:
            raise Invalid(f"/{name}", f"The {name} belongs to another project.")
    if spec.severity not in SEVERITIES:
        raise Invalid("/severity", "severity must be empty, low, normal or high.")
    if spec.repeat_until not in RepeatUntil.values:
        raise Invalid("/repeat_until", "repeat_until must be answered or taken.")
    check_range("/cap_per_hour", spec.cap_per_hour, CAP)
    check_range("/repeat_s", spec.repeat_s, REPEAT_S)
    check_range("/second_after_s", spec.second_after_s, SECOND_AFTER_S)
    if (spec.quiet_from is None) != (spec.quiet_until is None):
        raise Invalid("/quiet_until", "quiet_from and quiet_until need each other.")
    check_clock_times({"quiet_from": spec.quiet_from, "quiet_until": spec.quiet_until})
    check_timezone(spec.timezone)


def check_conditions(names: tuple[str, ...]) -> None:
    if not 1 <= len(names) <= MOST_CONDITIONS:
        raise Invalid("/conditions", f"A rule has 1 to {MOST_CONDITIONS} conditions.")
    for at, name in enumerate(names):
        if name not in CONDITIONS and name not in Kind.values:
            raise Invalid(
                f"/conditions/{at}",
                f"'{name[:60]}' is not a condition. Use one of: {', '.join(CONDITIONS)}; "
                "or a kind of event such as task.completed.",
            )


def check_channel(channel: Channel, project: Project | None, pointer: str) -> None:
    if channel.is_webhook:
        raise Invalid(pointer, "A webhook has its own event filter; rules are for people.")
    if channel.project_id not in (None, project.pk if project else None):
        raise Invalid(pointer, "The channel belongs to another project.")


def check_range(pointer: str, value: int | None, limits: tuple[int, int]) -> None:
    if value is not None and not limits[0] <= value <= limits[1]:
        raise Invalid(pointer, f"The value must be null or from {limits[0]} to {limits[1]}.")


def check_clock_times(times: Mapping[str, time | None]) -> None:
    for name, at in times.items():
        if at and at.tzinfo:
            raise Invalid(f"/{name}", f"Give {name} as 22:00, and its zone as timezone.")


def check_timezone(name: str) -> None:
    if name not in available_timezones():
        raise Invalid("/timezone", f"'{name[:60]}' is not a time zone such as Europe/Berlin.")
