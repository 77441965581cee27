"""Record each try: what becomes of the delivery, and of the channel's health."""

from datetime import datetime

from django.db import transaction
from psycopg.types.json import Jsonb

from ledger import journal
from ledger.database import sql
from ledger.journal import Stamp
from retries.models import Channel, Delivery, DeliveryTry
from retries.models.notification_channel import ChannelState, DisabledBecause
from retries.models.notification_delivery import TRY_BUCKETS, UNSETTLED, DeliveryRole, DeliveryState
from retries.notifications import channels
from retries.notifications.addresses.http_post import Answer
from retries.notifications.deliveries.retry_schedule import next_try_at, pause_after

GONE = 410
CLOCK = journal.clock("notifications")

TALLY = """insert into retries_deliverytally
    (project_id, event_type, status_class, tries, seconds, buckets)
values (%(project)s, %(event_type)s, %(status_class)s, 1, %(seconds)s, %(buckets)s)
on conflict (project_id, event_type, status_class) do update set
    tries = retries_deliverytally.tries + 1,
    seconds = retries_deliverytally.seconds + excluded.seconds,
    buckets = (select jsonb_agg((old.n::bigint + new.n::bigint) order by old.at)
        from jsonb_array_elements_text(retries_deliverytally.buckets) with ordinality old(n, at)
        join jsonb_array_elements_text(excluded.buckets) with ordinality new(n, at)
            on new.at = old.at)
returning tries"""


@transaction.atomic
def record_try(delivery: Delivery, channel: Channel, answer: Answer, *, now: datetime) -> None:
    """Store a try, and update its delivery and its channel."""
    # The channel's row is locked first, as it is when a channel is disabled: in another order, the
    # two would wait for each other.
    locked = Channel.objects.select_for_update(no_key=True).filter(pk=channel.pk)
    if not locked.values_list("pk", flat=True):
        return  # the channel was deleted, with its deliveries
    number = delivery.tries + 1
    values = {"latency_ms": answer.latency_ms, "code": answer.code}
    texts = {"error": answer.error, "response": answer.text}
    DeliveryTry.objects.bulk_create(
        [DeliveryTry(delivery=delivery, number=number, at=now, **values, **texts)],
        ignore_conflicts=True,
    )
    again = find_next_try(delivery, answer, number=number, now=now)
    state = state_after(answer, again)
    mine = Delivery.objects.filter(pk=delivery.pk, state__in=UNSETTLED)
    mine.update(
        state=state,
        tries=number,
        next_try_at=again,
        first_try_at=delivery.first_try_at or now,
        delivered_at=now if answer.succeeded else None,
        **({"receipt": answer.receipt} if answer.receipt else {}),
        **values,
        **texts,
    )
    if channel.is_webhook:
        count_try(delivery, answer)
    record_health(channel, answer, now=now)
    if state == DeliveryState.GAVE_UP and delivery.role != DeliveryRole.TEST:
        because = DisabledBecause.GONE if answer.code == GONE else DisabledBecause.GAVE_UP
        channels.disable_channel(channel.pk, because, stamp=Stamp(CLOCK, now))


def find_next_try(
    delivery: Delivery, answer: Answer, *, number: int, now: datetime
) -> datetime | None:
    """Return when to try again after try `number`; None after a success or the last try."""
    # A person waits for the answer of a test.
    if is_final(answer) or delivery.role == DeliveryRole.TEST:
        return None
    return next_try_at(number, now=now, retry_after_s=answer.retry_after_s)


def is_final(answer: Answer) -> bool:
    return answer.succeeded or answer.code == GONE


def state_after(answer: Answer, again: datetime | None) -> DeliveryState:
    if answer.succeeded:
        return DeliveryState.DELIVERED
    return DeliveryState.RETRYING if again else DeliveryState.GAVE_UP


def record_health(channel: Channel, answer: Answer, *, now: datetime) -> None:
    # After several failures, a channel is left alone for a while.
    row = Channel.objects.on().filter(pk=channel.pk)
    if answer.succeeded:
        row.update(
            state=ChannelState.ACTIVE,
            failures=0,
            failing_since=None,
            resume_at=None,
            succeeded_at=now,
        )
        return
    failures = channel.failures + 1
    wait = pause_after(failures)
    row.update(
        state=ChannelState.FAILING,
        failures=failures,
        failing_since=channel.failing_since or now,
        resume_at=now + wait if wait else None,
        last_error=answer.error,
    )


def count_try(delivery: Delivery, answer: Answer) -> None:
    seconds = answer.latency_ms / 1000
    sql.run(
        TALLY,
        project=delivery.project_id,
        event_type=delivery.kind,
        status_class=f"{answer.code // 100}xx" if answer.code else "none",
        seconds=seconds,
        buckets=Jsonb([int(seconds <= edge) for edge in TRY_BUCKETS]),
    )
