"""Write the digests that are due as deliveries of their channels."""

import logging
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django.conf import settings
from django.db import transaction

from ledger.authorization.permissions import projects_where
from ledger.database.sql import run
from ledger.errors import Invalid
from ledger.journal import since_position
from ledger.models import Preference
from ledger.values.ids import SLACK, first_id
from retries.journal_readers import counts
from retries.models import Channel, Delivery
from retries.models.notification_channel import ChannelKind, Digest
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.digests.figures import Figures, Projects, read_figures
from retries.notifications.digests.periods import find_last, find_next
from retries.notifications.digests.wording import word_digest
from retries.notifications.messages.wording import Message

logger = logging.getLogger(__name__)
KIND = "digest"
MOST_AT_ONCE = 20
# Mostly, the clock has counted the events of the period until then.
COUNTING = timedelta(minutes=1)
LONGEST = timedelta(days=31)  # if the clock was stopped
FOOTER = "--\nA digest of the channel {name}. Change it: {link}/settings/notifications/"
READ = "retries.view_escalation"
# An event before a time that the counts of activity do not have yet.
UNCOUNTED = f"""select 1 from ledger_event e, retries_streamcursor c
where c.name = '{counts.READER}' and (e.tx, e.id) > (c.tx::text::xid8, c.event_id)
    and e.id >= {since_position("c.event_id")} and e.at < %(at)s limit 1"""


def send_due(*, now: datetime) -> int:
    """Write the digests that are due; return how many channels had one due."""
    if run(UNCOUNTED, at=now - COUNTING):
        return 0  # after a stop, the clock counts the events of that time first
    done = 0
    while done < MOST_AT_ONCE and send_next(now):
        done += 1
    return done


@transaction.atomic
def send_next(now: datetime) -> bool:
    # The row's lock and the next time that is due let two clocks send it once.
    rows = Channel.objects.select_related("project", "person").order_by("digest_due_at", "id")
    due = rows.select_for_update(of=("self",), skip_locked=True, no_key=True)
    channel = due.filter(digest_due_at__lte=now - COUNTING).first()
    if channel is None:
        return False
    if channel.is_on:
        # One channel's error is logged, so that it does not stop the others.
        try:
            with transaction.atomic():
                write(channel, now=now)
        except Exception:
            logger.exception("the digest of channel %s could not be written", channel.pk)
    Channel.objects.filter(pk=channel.pk).update(digest_due_at=find_due(channel, now))
    return True


def write(channel: Channel, *, now: datetime) -> None:
    projects, (since, until) = find_projects(channel), find_period(channel, now=now)
    if since >= until or projects == []:
        return
    figures = read(channel, projects, since, until)
    if figures.is_quiet:
        return
    message = word(channel, figures)
    Delivery.objects.get_or_create(
        channel=channel,
        message_id=f"{KIND}-{until:%Y%m%dT%H%M}",
        defaults={
            "project": channel.project,
            "kind": KIND,
            "role": DeliveryRole.SUMMARY,
            "title": message.subject[:200],
            "body": asdict(message) | {"until": until.isoformat()},
            "state": DeliveryState.PENDING,
            "next_try_at": now,
            "created_at": now,
        },
    )


def find_period(channel: Channel, *, now: datetime) -> tuple[datetime, datetime]:
    """Return the time that a digest that is due covers: no hour twice, and none left out."""
    assert channel.digest_due_at
    rule, due = rule_of(channel), channel.digest_due_at
    until = max(due, find_last(now - COUNTING, **rule))
    since = find_last(due - timedelta(seconds=1), **rule)
    if find_last(due, **rule) != due:
        # The person has chosen another time zone since it was scheduled.
        since = due - timedelta(days=7 if rule["weekly"] else 1)
    own = Delivery.objects.filter(channel=channel, kind=KIND, id__gte=first_id(since - SLACK))
    last = own.order_by("-id").first()
    sent = datetime.fromisoformat(last.body["until"]) if last and "until" in last.body else since
    return max(since, until - LONGEST, sent), until


def find_projects(channel: Channel) -> Projects:
    """Return the projects that a channel is told of, and its person may see; None for all."""
    own = [channel.project_id] if channel.project_id else None
    seen = projects_where(channel.person, READ) if channel.person else None
    if seen is None:
        return own
    return sorted(seen if own is None else seen.intersection(own))


def preview(channel: Channel, *, now: datetime) -> tuple[Figures, Message]:
    rule = rule_of(channel)
    until = find_last(now, **rule)
    since = find_last(until - timedelta(seconds=1), **rule)
    figures = read(channel, find_projects(channel), since, until)
    return figures, word(channel, figures)


def read(channel: Channel, projects: Projects, since: datetime, until: datetime) -> Figures:
    name = channel.project.name if channel.project else ""
    details = channel.include_details
    return read_figures(projects, name=name, since=since, until=until, with_details=details)


def word(channel: Channel, figures: Figures) -> Message:
    return word_digest(
        figures,
        weekly=channel.digest == Digest.WEEKLY,
        timezone=zone_of(channel),
        link=settings.LINK_URL,
        footer=FOOTER.format(name=channel.name, link=settings.LINK_URL),
    )


# ---- the setting


def schedule(channel: Channel, *, now: datetime) -> None:
    """Set when a channel's next digest is due; raises Invalid."""
    if channel.digest not in Digest.values:
        raise Invalid("/digest", f"A digest is one of: {', '.join(Digest.values)}.")
    if channel.digest != Digest.OFF and channel.kind != ChannelKind.PERSON:
        raise Invalid("/digest", "Only channels for people have a digest.")
    if not 0 <= channel.digest_hour <= 23:
        raise Invalid("/digest_hour", "The hour is from 0 to 23.")
    if channel.digest_timezone not in available_timezones():
        raise Invalid("/digest_timezone", "Choose a time zone such as Europe/Berlin.")
    channel.digest_due_at = find_due(channel, now)


def find_due(channel: Channel, now: datetime) -> datetime | None:
    return None if channel.digest == Digest.OFF else find_next(now, **rule_of(channel))


def rule_of(channel: Channel) -> dict[str, Any]:
    weekly = channel.digest == Digest.WEEKLY
    return {"hour": channel.digest_hour, "weekly": weekly, "timezone": zone_of(channel)}


def zone_of(channel: Channel) -> str:
    own = Preference.objects.filter(user=channel.person_id).exclude(time_zone="")
    chosen = own.values_list("time_zone", flat=True).first() if channel.person_id else None
    return next(filter(is_zone, (chosen or "", channel.digest_timezone)), "UTC")


def is_zone(name: str) -> bool:
    try:
        return bool(name) and bool(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError):  # the system no longer knows it
        return False
