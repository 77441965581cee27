"""Create, change, disable and delete channels, and read what is secret in them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from ledger.database import sql
from ledger.errors import Invalid, NotFound, VersionMismatch
from ledger.journal import Kind, Stamp
from ledger.models import Project
from ledger.secrets import encryption
from ledger.secrets.redaction import redacted
from ledger.values.text import truncate
from retries.models import Channel, Delivery
from retries.models.notification_channel import ChannelKind, ChannelState, Digest, DisabledBecause
from retries.models.notification_delivery import DeliveryState
from retries.notifications import journaling, signatures
from retries.notifications.addresses import checks as addresses
from retries.notifications.addresses.shortening import shorten_address
from retries.notifications.digests.sending import schedule
from retries.notifications.messages.attempt_names import ATTEMPT_NAMES
from retries.notifications.outbox import begin_reading
from retries.notifications.rules import editing as rules
from retries.notifications.services import kinds, person_services

NAME_LENGTH = 64
URL_LENGTH = 2000
MOST_FILTERS = 50
# the columns that a change is journaled with; the address follows from its own
DIGEST = ("digest", "digest_hour", "digest_timezone")
CHANGEABLE = ("name", "events", "include_details", "person_id", *DIGEST)
ROTATION_HOURS = 24
DELETIONS = (
    """delete from retries_deliverytry t using retries_delivery d
        where d.id = t.delivery_id and d.channel_id = %(channel)s""",
    "delete from retries_delivery where channel_id = %(channel)s",
)
PATTERN = re.compile(r"[a-z_]+\.(\*|[a-z_]+)|\*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSpec:
    """The fields of a channel that a person or a program sets."""

    kind: ChannelKind
    name: str
    url: str
    events: tuple[str, ...] = ()
    include_details: bool = False
    person: User | None = None
    digest: str = Digest.OFF.value
    digest_hour: int = 8
    digest_timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Created:
    """A new channel; `secret` signs its webhooks and is shown only now."""

    channel: Channel
    secret: str


def create_channel(spec: ChannelSpec, *, project: Project | None, stamp: Stamp) -> Created:
    """Create a channel for one project or for all."""
    # The first channel for people gets the default rules.
    check_spec(spec)
    service, shown = describe_address(spec.kind, spec.url)
    begin_reading(stamp.at)  # what happens before the next run of the clock counts too
    secret = signatures.new_secret() if spec.kind == ChannelKind.WEBHOOK else ""
    with unique_name(spec.name), transaction.atomic():
        channel = Channel(
            project=project,
            kind=spec.kind,
            name=redacted(spec.name)[:NAME_LENGTH],
            service=service,
            address=encryption.encrypt(spec.url),
            shown_address=shown,
            signing_secrets=encryption.encrypt([{"secret": secret}]) if secret else "",
            events=list(spec.events),
            include_details=spec.include_details,
            person=spec.person,
            enabled_at=stamp.at,
            created_by_type=stamp.actor.type,
            created_by_name=stamp.actor.name,
            created_at=stamp.at,
            updated_at=stamp.at,
            **{name: getattr(spec, name) for name in DIGEST},
        )
        schedule(channel, now=stamp.at)
        channel.save(force_insert=True)
        journaling.record_channel(Kind.CHANNEL_CREATED, channel, stamp=stamp)
        if spec.kind == ChannelKind.PERSON:
            rules.create_default_rules(channel, stamp=stamp)
    return Created(channel, secret)


def update_channel(
    channel_id: UUID, *, version: int | None, stamp: Stamp, **changes: Any
) -> Channel:
    """Change a channel's name, url, events, include_details, person, or digest; keep the rest.

    `version` is the version that the caller has read; None changes any version.
    """
    with unique_name(changes.get("name", "")), transaction.atomic():
        channel = lock_channel(channel_id, version=version)
        spec = ChannelSpec(
            kind=ChannelKind(channel.kind),
            name=changes.get("name", channel.name),
            url=changes.get("url", ""),
            events=tuple(changes.get("events", channel.events)),
            include_details=changes.get("include_details", channel.include_details),
            person=changes.get("person", channel.person),
            **{name: changes.get(name, getattr(channel, name)) for name in DIGEST},
        )
        check_spec(spec, has_url="url" in changes)
        before = {name: getattr(channel, name) for name in CHANGEABLE}
        channel.name, channel.events = redacted(spec.name)[:NAME_LENGTH], list(spec.events)
        channel.include_details, channel.person = spec.include_details, spec.person
        for name in DIGEST:
            setattr(channel, name, getattr(spec, name))
        if any(getattr(channel, name) != before[name] for name in (*DIGEST, "person_id")):
            schedule(channel, now=stamp.at)
        if "url" in changes:
            channel.service, channel.shown_address = describe_address(spec.kind, spec.url)
            channel.address = encryption.encrypt(spec.url)
        save_channel(channel, stamp)
        changed = journaling.list_changed(before, {name: getattr(channel, name) for name in before})
        if "url" in changes:  # a new address may look the same where it is shown
            changed.append("url")
        if changed:
            journaling.record_channel(Kind.CHANNEL_UPDATED, channel, stamp=stamp, changed=changed)
        return channel


def delete_channel(channel_id: UUID, *, stamp: Stamp) -> None:
    with transaction.atomic():
        channel = lock_channel(channel_id)
        journaling.record_channel(Kind.CHANNEL_DELETED, channel, stamp=stamp)
        # Django would read all rows to delete them, and there may be very many.
        for statement in DELETIONS:
            sql.run(statement, channel=channel_id)
        Channel.objects.filter(pk=channel_id).delete()


def enable_channel(channel_id: UUID, *, stamp: Stamp) -> Channel:
    with transaction.atomic():
        channel = lock_channel(channel_id)
        if not channel.is_on:
            channel.state, channel.disabled_at, channel.disabled_because = (
                ChannelState.ACTIVE,
                None,
                "",
            )
            channel.enabled_at = stamp.at
            channel.failures, channel.failing_since, channel.resume_at = 0, None, None
            save_channel(channel, stamp)
            journaling.record_channel(Kind.CHANNEL_ENABLED, channel, stamp=stamp)
        return channel


def disable_channel(channel_id: UUID, because: DisabledBecause, *, stamp: Stamp) -> bool:
    # Deliveries that wait for the channel are not sent.
    with transaction.atomic():
        channel = lock_channel(channel_id)
        if not channel.is_on:
            return False
        channel.state, channel.disabled_at = ChannelState.DISABLED, stamp.at
        channel.disabled_because = because
        save_channel(channel, stamp)
        # locked in the order in which they are sent again
        waiting = Delivery.objects.filter(channel=channel).unsettled().order_by("id")
        ids = list(waiting.select_for_update(no_key=True).values_list("pk", flat=True))
        Delivery.objects.filter(pk__in=ids).update(state=DeliveryState.NOT_SENT, next_try_at=None)
        if because == DisabledBecause.BY_HAND:
            journaling.record_channel(Kind.CHANNEL_DISABLED, channel, stamp=stamp)
        else:
            journaling.record_channel(Kind.WEBHOOK_DISABLED, channel, stamp=stamp, reason=because)
        return True


def lock_channel(channel_id: UUID, *, version: int | None = None) -> Channel:
    """Return a channel with its row locked; raise NotFound or VersionMismatch."""
    channel = Channel.objects.select_for_update(of=("self",)).filter(pk=channel_id).first()
    if channel is None:
        raise NotFound(f"There is no channel {channel_id} here.")
    if version is not None and channel.version != version:
        raise VersionMismatch(
            f"The channel is at version {channel.version}, not {version}.", current=channel.version
        )
    return channel


def save_channel(channel: Channel, stamp: Stamp) -> None:
    channel.version += 1
    channel.updated_at = stamp.at
    channel.save()


# ---- secrets


def address_of(channel: Channel) -> str:
    """Return the whole address; raises encryption.Unreadable."""
    return str(encryption.decrypt(channel.address))


def open_channel(channel: Channel) -> tuple[kinds.Kind, dict[str, str]]:
    """Return a channel's kind and its fields, secrets included; no fields if unreadable."""
    kind = kinds.kind_of(channel)
    try:
        url = address_of(channel)
    except encryption.Unreadable:
        return kind, {}
    values = kind.read_url(url)
    return (kinds.OTHER, {"url": url}) if values is None else (kind, values)


def describe_recipient(channel: Channel) -> str:
    kind, values = open_channel(channel)
    return kind.describe_recipient(values) or channel.shown_address


def signing_secrets_of(channel: Channel, *, now: datetime) -> list[str]:
    """Return the secrets that sign now: the newest, and earlier ones until they expire."""
    found = encryption.decrypt(channel.signing_secrets) if channel.signing_secrets else []
    return [each["secret"] for each in found if is_valid(each, now)]


def is_valid(secret: dict[str, str], now: datetime) -> bool:
    return "until" not in secret or datetime.fromisoformat(secret["until"]) > now


def rotate_secret(
    channel_id: UUID, *, stamp: Stamp, hours: int = ROTATION_HOURS
) -> tuple[Channel, str]:
    """Create a signing secret for a webhook; the earlier ones also sign for some hours."""
    with transaction.atomic():
        channel = lock_channel(channel_id)
        if not channel.is_webhook:
            raise Invalid("/id", "Only webhooks have a signing secret.")
        secret, until = signatures.new_secret(), stamp.at + timedelta(hours=hours)
        earlier = [
            each if "until" in each else each | {"until": until.isoformat()}
            for each in encryption.decrypt(channel.signing_secrets)
        ]
        kept = [each for each in earlier if is_valid(each, stamp.at)] if hours else []
        channel.signing_secrets = encryption.encrypt([{"secret": secret}, *kept])
        save_channel(channel, stamp)
        journaling.record_channel(Kind.CHANNEL_ROTATED, channel, stamp=stamp)
        return channel, secret


def reencrypt_secrets() -> int:
    """Encrypt all secrets with the current key; return how many channels changed."""
    changed = 0
    with transaction.atomic():
        for channel in Channel.objects.select_for_update():
            if encryption.is_current(channel.address):
                continue
            secrets = channel.signing_secrets and encryption.rotate(channel.signing_secrets)
            Channel.objects.filter(pk=channel.pk).update(
                address=encryption.rotate(channel.address), signing_secrets=secrets
            )
            changed += 1
    return changed


# ---- checks


def check_spec(spec: ChannelSpec, *, has_url: bool = True) -> None:
    if not spec.name.strip() or len(spec.name) > NAME_LENGTH or not spec.name.isprintable():
        raise Invalid("/name", f"The name must have 1 to {NAME_LENGTH} visible characters.")
    if has_url and len(spec.url) > URL_LENGTH:
        raise Invalid("/url", f"The URL must have at most {URL_LENGTH} characters.")
    if spec.events and spec.kind != ChannelKind.WEBHOOK:
        raise Invalid("/events", "Only webhooks have an event filter; use a rule instead.")
    if len(spec.events) > MOST_FILTERS:
        raise Invalid("/events", f"At most {MOST_FILTERS} filters are allowed.")
    for at, pattern in enumerate(spec.events):
        if not PATTERN.fullmatch(pattern) or not matches_kind(pattern):
            raise Invalid(
                f"/events/{at}",
                f"'{truncate(pattern, 60)}' matches no kind of event. "
                "Use a kind such as task.failed, or all of a noun such as task.*.",
            )


def matches_kind(pattern: str) -> bool:
    noun, _, verb = pattern.partition(".")
    if pattern == "*":
        return True
    return any(
        kind == pattern or (verb == "*" and kind.startswith(noun + "."))
        for kind in (*Kind.values, *ATTEMPT_NAMES)
    )


def describe_address(kind: ChannelKind, url: str) -> tuple[str, str]:
    if kind == ChannelKind.PERSON:
        service = person_services.read_service(url)
        return service.name, service.shown
    addresses.check_url(url)
    return "Webhook", shorten_address(url)


@contextmanager
def unique_name(name: str) -> Iterator[None]:
    # The database refuses a name that another channel has.
    try:
        yield
    except IntegrityError as error:
        if "channel_name_once" in str(error):
            raise Invalid("/name", f"Another channel is called '{name}'.") from error
        raise
