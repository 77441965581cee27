"""A rule as a sentence, and a channel's health in words (pure)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from dashboard.wording.formatting import counted, latency, whole_duration
from retries.models import Channel, Delivery, NotificationRule
from retries.models.notification_channel import ChannelState, DisabledBecause
from retries.models.notification_delivery import DeliveryState
from retries.models.notification_rule import RepeatUntil
from retries.notifications.rules.conditions import condition_of
from retries.notifications.services.kinds import WEBHOOK, kind_of

UNTIL = {RepeatUntil.ANSWERED.value: "answered", RepeatUntil.TAKEN.value: "someone takes it"}
DISABLED = {
    DisabledBecause.GONE.value: "410 Gone",
    DisabledBecause.GAVE_UP.value: "a delivery gave up",
    DisabledBecause.UNREADABLE.value: "its address can’t be read",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a sentence; the strong ones are what a rule decides."""

    text: str
    is_strong: bool = False


def describe_rule(rule: NotificationRule) -> list[Part]:
    return list(write_rule(rule))


def write_rule(rule: NotificationRule) -> Iterator[Part]:
    yield Part("When ")
    for number, name in enumerate(rule.conditions):
        if number:
            yield Part(" or ")
        yield Part(condition_of(name).label, True)
    yield Part(" in ")
    yield Part(rule.project.name if rule.project else "any project", True)
    if rule.agent:
        yield from (Part(" for "), Part(rule.agent.name, True))
    if rule.plan:
        yield from (Part(" of plan "), Part(rule.plan.ref or rule.plan.title, True))
    if rule.severity:
        yield from (Part(" and it is "), Part(rule.severity, True))
    yield from (Part(", tell "), Part(rule.channel.name, True))
    if rule.repeat_s:
        every = f"{whole_duration(rule.repeat_s)} until {UNTIL[rule.repeat_until]}"
        yield from (Part("; repeat every "), Part(every, True))
    if rule.cap_per_hour:
        yield from (Part("; at most "), Part(f"{rule.cap_per_hour} an hour", True))
    if rule.quiet_from and rule.quiet_until:
        quiet = f"{rule.quiet_from:%H:%M}–{rule.quiet_until:%H:%M} {rule.timezone}"
        yield from (Part("; quiet "), Part(quiet, True))
        if rule.severe_breaks_quiet:
            yield Part(" unless it is severe")
    if not rule.only_on_change:
        yield Part("; each time, not only on change")
    yield Part(".")
    if rule.second_channel and rule.second_after_s:
        yield from (Part(" After "), Part(whole_duration(rule.second_after_s), True))
        yield from (Part(" without a reaction also tell "), Part(rule.second_channel.name, True))
        yield Part(".")


@dataclass(frozen=True, slots=True)
class Health:
    """A channel's health: a short label, and the reason if it does not work."""

    label: str
    icon: str
    css: str
    at: datetime | None = None
    note: str = ""
    is_bad: bool = False


def describe_health(channel: Channel) -> Health:
    if channel.state == ChannelState.DISABLED:
        why = DISABLED.get(channel.disabled_because)
        return Health(
            label=f"Disabled: {why}" if why else "Off",
            icon="s-failed" if why else "pause",
            css="st--failed" if why else "st--paused",
            note="" if why is None else "Nothing is sent to it. Turn it on with a test.",
            is_bad=why is not None,
        )
    if channel.state == ChannelState.FAILING:
        times = counted(channel.failures, "failed try", "failed tries")
        return Health(
            label="Failing since",
            icon="s-retry",
            css="st--retry",
            at=channel.failing_since,
            note=f"{channel.last_error.rstrip('.') or 'It does not answer'}: {times}. "
            "Each delivery is tried for days, so nothing is lost yet.",
            is_bad=True,
        )
    if channel.succeeded_at is None:
        return Health("Never tested", "s-queued", "st--queued")
    return Health("Working", "s-done", "st--done")


def describe_test(delivery: Delivery, recipient: str) -> tuple[str, str]:
    took = "" if delivery.latency_ms is None else f" in {latency(delivery.latency_ms)}"
    kind = kind_of(delivery.channel)
    # a webhook responds with a status; a service for people accepts or refuses
    code = f"Response {delivery.code}. " if delivery.code and kind is WEBHOOK else ""
    service = delivery.channel.service
    if delivery.state == DeliveryState.DELIVERED:
        return f"{service} accepted the test{took}.", f"{code}Look for it in {recipient}."
    if delivery.state in (DeliveryState.PENDING, DeliveryState.RETRYING) and not delivery.tries:
        return "Sending the test…", "Its answer appears here."
    error = delivery.error or f"Response {delivery.code or 'none'}"
    return f"The test failed{took}.", f"{error.rstrip('.')}. {kind.advise(error)}".strip()
