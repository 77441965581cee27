"""Webhooks against a real receiver: signed, retried, disabled, and never lost."""

import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from ledger.database import sql
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.models import Event, Project
from ledger.tasks import aborting
from ledger.tokens import TrustedCaller
from retries.attempts import finishing, leases, releases
from retries.attempts.report_fields import Report
from retries.models import Channel, Delivery, DeliveryTry, StreamCursor
from retries.notifications import channels
from retries.notifications.addresses import http_post
from retries.notifications.deliveries import recording, redelivery, retry_schedule
from retries.notifications.messages.attempt_names import ATTEMPT_NAMES
from tests.factories import make_agent, make_project
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.notifications.receivers import MARA, Receiver, make_webhook, run_clock
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_webhook_gets_each_event_once_signed_and_thin(receiver: Receiver) -> None:
    """The moves of a task arrive in order, verify with every secret, and hold no failure text."""
    project = make_project()
    agent = make_agent()
    run_clock()
    made = make_webhook(receiver, project=project)
    detailed = make_webhook(
        receiver,
        project=None,
        name="details",
        events=("task.retry_scheduled",),
        include_details=True,
    )
    elsewhere = make_webhook(receiver, project=make_project("demo"), name="elsewhere")
    run_clock()
    receiver.received.clear()  # the first is told of the others
    now = timezone.now()
    task = make_task(agent, now=now, title="Rename <script>")
    fail(agent, attempt_of(claim(agent, now=now)), now=now, message="password hunter2 is wrong")
    run_clock()
    told = [each for each in receiver.received if "details" not in each.json["data"]]
    kinds = [each.json["type"] for each in told]
    assert kinds == ["task.created", "task.claimed", "task.retry_scheduled"]
    ids = [
        f"evt-{id}"
        for id in Event.objects.filter(subject_id=task).order_by("id").values_list("pk", flat=True)
    ]
    assert [each.id for each in told] == ids
    for each in told:
        Webhook(made.secret).verify(each.body, each.headers)
        assert len(each.body) < 20_000 and each.headers["traceparent"].startswith("00-")
        assert b"hunter2" not in each.body and b"script" not in each.body
        assert each.json["data"]["url"].endswith(f"/tasks/{task}/")
    (full,) = [each for each in receiver.received if "details" in each.json["data"]]
    assert full.json["data"]["details"]["title"] == "Rename <script>"
    assert not Delivery.objects.filter(channel=elsewhere.channel).exists()
    with pytest.raises(WebhookVerificationError):
        Webhook(made.secret).verify(full.body, full.headers)
    Webhook(detailed.secret).verify(full.body, full.headers)
    # while it rotates, both secrets sign; a channel in full shows none of them
    _, newer = channels.rotate_secret(made.channel.pk, stamp=Stamp(MARA))
    redelivery.redeliver(Delivery.objects.get(channel=made.channel, kind="task.created"), now=now)
    run_clock()
    again = receiver.received[-1]
    assert again.id == ids[0]
    Webhook(newer).verify(again.body, again.headers)
    Webhook(made.secret).verify(again.body, again.headers)
    stored = Channel.objects.values().get(pk=made.channel.pk)
    assert made.secret not in str(stored) and newer not in str(stored)
    # reading the same events again, as after the death of a reader, writes nothing new
    count = Delivery.objects.count()
    StreamCursor.objects.update(tx=0)
    run_clock()
    assert Delivery.objects.count() == count


def test_a_webhook_may_ask_for_attempts_by_name(receiver: Receiver) -> None:
    """api.md §10: the task's event goes to those that ask for it under the attempt's name."""
    project, agent = make_project(), make_agent()
    caller = TrustedCaller(SYSTEM, agent=agent)
    hooks = {
        name: make_webhook(receiver, project=project, name=name, events=events).channel.pk
        for name, events in {
            "all": (),
            "attempts": ("attempt.*",),
            "both": ("task.claimed", "attempt.started"),
            "failed": ("attempt.failed",),
        }.items()
    }
    with pytest.raises(Invalid, match="matches no kind"):
        make_webhook(receiver, project=project, name="wrong", events=("attempt.ended",))
    now = timezone.now()

    def begin() -> UUID:
        return attempt_of(claim(agent, now=now))

    make_task(agent, now=now)
    fail(agent, begin(), now=now, code="lease_expired")  # an agent's own word
    make_task(agent, now=now)
    finishing.finish_attempt(begin(), Report(), caller=caller, now=now)
    stopped = make_task(agent, now=now)
    releases.release(begin(), caller=caller, now=now)
    begin()
    aborting.abort([stopped], stamp=Stamp(MARA, now))
    make_task(agent, now=now)
    begin()
    assert leases.expire(now=now + timedelta(minutes=10)) == 2
    run_clock()
    sent = {
        name: list(
            Delivery.objects.filter(channel=id).order_by("id").values_list("kind", flat=True)
        )
        for name, id in hooks.items()
    }
    assert sent["attempts"] == [
        "attempt.started",
        "attempt.failed",
        "attempt.started",
        "attempt.succeeded",
        "attempt.started",
        "attempt.released",
        "attempt.started",
        "attempt.abort_requested",
        "attempt.started",
        "attempt.lease_expired",
        "attempt.lease_expired",
    ]
    assert sent["failed"] == ["attempt.failed"]
    assert not any(kind.startswith("attempt.") for kind in sent["all"])
    assert sent["both"] == ["task.claimed", "attempt.started"] * 5
    both = Delivery.objects.filter(channel=hooks["both"]).order_by("id")
    assert both[1].message_id == f"{both[0].message_id}-attempt"
    assert both[1].event_id == both[0].event_id and both[1].state == "delivered"
    assert {each.json["type"] for each in receiver.received} >= {*ATTEMPT_NAMES, "task.claimed"}


@pytest.mark.parametrize(
    ("status", "headers", "wait_s"),
    [
        (503, {"Retry-After": "1200"}, 1200),
        (429, {"Retry-After": "7"}, 7),
        (302, {}, 5),
        (404, {}, 5),
    ],
)
def test_a_failure_is_tried_again_on_schedule(
    receiver: Receiver, project: Project, status: int, headers: dict[str, str], wait_s: int
) -> None:
    """Each try has the same id; Retry-After is obeyed, and a redirect is a failure."""
    made = make_webhook(receiver, project=project)
    make_task(make_agent(), now=timezone.now())
    receiver.answer, receiver.headers = status, headers | {"Location": receiver.url}
    receiver.text = b"x" * 5_000_000
    run_clock()
    delivery = Delivery.objects.get(kind="task.created")
    assert delivery.state == "retrying" and delivery.code == status and delivery.tries == 1
    assert len(delivery.response) == 1024 and delivery.next_try_at
    wait = (delivery.next_try_at - delivery.first_try_at).total_seconds()
    assert wait_s <= wait <= wait_s * 1.1 + 1
    assert Channel.objects.get(pk=made.channel.pk).state == "failing"
    receiver.answer, receiver.text = 204, b""
    Delivery.objects.filter(pk=delivery.pk).update(next_try_at=timezone.now())
    run_clock()
    delivery.refresh_from_db()
    assert delivery.state == "delivered" and delivery.tries == 2
    assert len({each.id for each in receiver.received if each.json["type"] == "task.created"}) == 1
    assert list(
        DeliveryTry.objects.order_by("number")
        .filter(delivery=delivery)
        .values_list("code", flat=True)
    ) == [status, 204]
    assert Channel.objects.get(pk=made.channel.pk).state == "active"


def test_a_try_locks_the_channel_first(receiver: Receiver, project: Project) -> None:
    """A person who disables a channel while it sends waits for no try that waits for the person."""
    channel = make_webhook(receiver, project=project, events=("task.*",)).channel
    make_task(make_agent(), now=timezone.now())
    receiver.answer = 500
    run_clock()
    delivery = Delivery.objects.get(state="retrying")
    answer = http_post.Answer(200)

    def record() -> None:
        try:
            recording.record_try(delivery, channel, answer, now=timezone.now())
        finally:
            connection.close()

    with transaction.atomic():
        channels.lock_channel(channel.pk)
        thread = threading.Thread(target=record)
        thread.start()
        wait_until(lambda: sql.run(WAITING)[0]["n"])
        rows = Delivery.objects.select_for_update(nowait=True)
        assert rows.get(pk=delivery.pk) == delivery
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert DeliveryTry.objects.filter(delivery=delivery, number=2).exists()


WAITING = """select count(*) as n from pg_locks
    where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"""


def test_a_receiver_that_is_gone_or_never_answers_is_disabled(
    receiver: Receiver, project: Project
) -> None:
    """410 disables at once and the last try after ten; both are journaled, and nothing is lost."""
    gone = make_webhook(receiver, project=project, name="gone", events=("task.*",)).channel
    watcher = make_webhook(receiver, project=project, name="watcher", events=("webhook.*",)).channel
    agent = make_agent()
    make_task(agent, now=timezone.now())
    receiver.answer = 410
    run_clock()
    gone.refresh_from_db()
    assert (gone.state, gone.disabled_because) == ("disabled", "gone")
    receiver.answer = 200
    run_clock()
    told = receiver.received[-1].json
    assert told["type"] == "webhook.disabled" and told["data"]["reason"] == "gone"
    assert Delivery.objects.get(channel=watcher).state == "delivered"
    make_task(agent, now=timezone.now())
    run_clock()
    assert set(Delivery.objects.filter(channel=gone).values_list("state", flat=True)) == {
        "gave_up",
        "not_sent",
    }
    # a person repairs it and sends the missed ones again
    channels.enable_channel(gone.pk, stamp=Stamp(MARA))
    gone.refresh_from_db()
    span = {"since": timezone.now() - timedelta(hours=1), "until": timezone.now()}
    assert (
        redelivery.redeliver_range(gone, redelivery.in_range(gone, **span), now=timezone.now()) == 2
    )
    run_clock()
    assert set(Delivery.objects.filter(channel=gone).values_list("state", flat=True)) == {
        "delivered"
    }
    # the last of ten tries
    receiver.answer = 500
    make_task(agent, now=timezone.now())
    run_clock()
    last = Delivery.objects.filter(channel=gone, state="retrying")
    last.update(tries=retry_schedule.MOST_TRIES - 1, next_try_at=timezone.now())
    Channel.objects.update(resume_at=None)
    run_clock()
    gone.refresh_from_db()
    assert (gone.state, gone.disabled_because) == ("disabled", "gave_up")
    assert Event.objects.filter(kind="webhook.disabled").count() == 2
    # its own end is told to others only, and the watcher's failure not to itself
    assert not Delivery.objects.filter(channel=gone, kind="webhook.disabled").exists()


def test_hostile_answers_end_within_the_deadline(
    receiver: Receiver, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte at a time, no answer at all, and what is not HTTP: a clear error, and no harm."""
    ended = threading.Event()

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        while not ended.wait(0.05):
            handler.wfile.write(b"H")
            handler.wfile.flush()

    def garbage(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\x00\xff" * 700_000)

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(100):
            handler.wfile.write(b"a\x00\xff\n" * 100_000)

    def silent(handler: BaseHTTPRequestHandler) -> None:
        ended.wait(PATIENCE_S)

    found = []
    for answer, deadline_s in ((trickle, 1), (garbage, 60), (endless, 60), (silent, 1)):
        monkeypatch.setattr(http_post, "DEADLINE_SECONDS", deadline_s)
        receiver.answer = answer
        found.append(http_post.post(receiver.url, b"{}", {}))
    ended.set()
    assert [each.code for each in found] == [None, None, 200, None]
    assert [each.error for each in found] == [
        "no answer within 1 s",
        "the answer is not HTTP: LineTooLong",
        "",
        "no answer within 1 s",
    ]
    assert len(found[2].text) <= 1024 and "\x00" not in found[2].text


def test_the_schedule_is_that_of_the_documentation() -> None:
    now = timezone.now()
    waits = [retry_schedule.next_try_at(tries, now=now) for tries in range(11)]
    hours = [round((at - now).total_seconds() / 3600, 3) if at else None for at in waits]
    low = [0, 0.001, 0.083, 0.5, 2, 5, 10, 14, 20, 24, None]
    for got, least in zip(hours, low, strict=True):
        assert (got is None) == (least is None)
        assert got is None or least is None or least <= got <= least * 1.1 + 0.001
    assert settings.TENFOUR["DELIVERY_DAYS"] == 30
