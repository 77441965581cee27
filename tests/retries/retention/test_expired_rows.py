"""No table grows without a limit: each row has an age at which it goes, or a reason to stay."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from config.local.places import PROJECT
from ledger import idempotency
from ledger.idempotency import StoredResponse, run_once
from ledger.models import Agent, IdempotencyKey, SignIn, Task, Token
from ledger.people import browsers
from ledger.values.ids import first_id
from retries import sweeps
from retries.models import NotificationThread, Operation, OperationItem
from retries.operations import expiry
from retries.retention import expired_rows
from tests.dashboard.notifications.deliveries import (
    make_channel,
    make_delivery,
    make_notification_rule,
)
from tests.factories import make_token
from tests.retries.moves import make_task
from tests.retries.operations.worlds import make_person, run, start

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)

# modules whose statements delete rows by their age
DELETING = (
    *(f"retries/retention/{kind}_rows.py" for kind in ("task", "plan", "instruction")),
    *(f"retries/retention/{kind}_rows.py" for kind in ("escalation", "session", "trace")),
    "ledger/sessions/statements.py",
    "ledger/idempotency.py",
    "ledger/markers.py",
    "retries/operations/expiry.py",
    "retries/notifications/rules/threads.py",
    "retries/failures/failure_counts.py",
)
DELETED_BY_DJANGO = {
    "ledger_event": "whole months: journal_months.drop_month",
    "ledger_signinrecord": "browsers.delete_sign_in_records",
    "django_session": "browsers.delete_expired_sessions",
    "ledger_signin": "browsers.delete_ended_sign_ins",
    "retries_delivery": "tick.purge",
    "retries_deliverytry": "with its delivery",
    "retries_activitycount": "half hours: activity_counts.count_activity; days are few",
    "retries_durationcount": "half hours: activity_counts.count_activity; days are few",
}
OF_PEOPLE = "people make them one by one"
ONE_FOR_EACH = "one row for each thing that has a limit itself, such as an agent"
LEARNED = "what was learned stays, as docs/retention.md says; one row for each kind of error or fix"
KEPT = {
    **dict.fromkeys(
        (
            *(
                "django_admin_log",
                "ledger_project",
                "ledger_agent",
                "ledger_token",
                "ledger_membership",
            ),
            *("ledger_invitation", "ledger_savedview", "ledger_standinginstruction"),
            *("retries_channel", "retries_notificationrule", "retries_contextexperiment"),
            *("retries_permissionrule", "retries_rota", "retries_escalationpolicy"),
        ),
        OF_PEOPLE,
    ),
    **dict.fromkeys(
        (
            *("ledger_preference", "ledger_breaker", "ledger_clockrun", "ledger_accountwindow"),
            *("ledger_modelprice", "ledger_poolmember"),
            *("ledger_dailytaskcount", "retries_acktarget", "retries_insightfigure"),
            *("retries_outcomerate", "retries_metrictotal", "retries_deliverytally"),
            *("retries_ongoingcondition", "retries_quiethours", "retries_streamcursor"),
            "retries_retrypolicy",
        ),
        ONE_FOR_EACH,
    ),
    **dict.fromkeys(
        (
            *("retries_failurepattern", "retries_pastfailures", "retries_pastfixtry"),
            "retries_fixverdict",
        ),
        LEARNED,
    ),
}


def test_every_table_has_a_limit_or_a_reason() -> None:
    """A new table gets an age in `retries.retention`, or a reason here."""
    deleted = {
        table
        for path in DELETING
        for table in re.findall(r"delete from (\w+)", (PROJECT / path).read_text())
    }
    tables = {
        model._meta.db_table
        for label in ("ledger", "retries", "sessions", "admin")
        for model in apps.get_app_config(label).get_models()
        if model._meta.managed
    }
    assert tables == deleted | DELETED_BY_DJANGO.keys() | KEPT.keys()
    assert not deleted & KEPT.keys() and not DELETED_BY_DJANGO.keys() & KEPT.keys()


def make_token_of(agent: Agent) -> Token:
    make_token("agent", agent=agent)
    return Token.objects.get(agent=agent)


def tick(*, after: timedelta = timedelta()) -> dict[str, Any]:
    return sweeps.run("journal", now=timezone.now() + after)


def test_keys_go_with_their_responses_after_a_day(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "KEYS_DELETED", 2)
    token, now = make_token_of(agent), timezone.now()
    for key, age in (("a", 3), ("b", 2), ("c", 1.1), ("d", 0.9), ("e", 0)):
        run_once(
            key,
            token_id=token.pk,
            fingerprint=b"x",
            now=now - age * DAY,
            work=lambda: StoredResponse(201, "{}"),
        )
    assert tick()["idempotency_keys"] == 3
    assert set(IdempotencyKey.objects.values_list("key", flat=True)) == {"d", "e"}
    assert tick()["idempotency_keys"] == 0


def test_sessions_go_with_the_notes_of_their_browsers() -> None:
    mara = User.objects.create_user("mara")
    for _ in range(2):
        client = Client()
        client.force_login(mara)
        browsers.note_sign_in(
            mara,
            session_key=client.session.session_key or "",
            method="password",
            address="127.0.0.1",
            user_agent="",
            now=timezone.now(),
        )
    kept, old = SignIn.objects.order_by("pk")
    Session.objects.filter(pk=old.session_key).update(expire_date=timezone.now() - DAY / 24)
    did = tick()
    # Django may not have stored the session of a new note yet.
    assert (did["browser_sessions"], did["signed_in_browsers"]) == (1, 0)
    SignIn.objects.update(last_seen_at=timezone.now() - 2 * DAY)
    did = tick()
    assert (did["browser_sessions"], did["signed_in_browsers"]) == (0, 1)
    assert SignIn.objects.get() == kept and Session.objects.get().pk == kept.session_key


def test_operations_go_with_the_events_of_their_time(
    agent: Agent, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "ITEMS_DELETED", 2)
    settings.TENFOUR = settings.TENFOUR | {"EVENT_DAYS": 400}
    now = timezone.now()
    make_person()
    done = []
    for count in (5, 1, 1):
        ids = [make_task(agent) for _ in range(count)]
        done.append(start("task.abort", Task.objects.filter(pk__in=ids), now=now))
    for operation in done[:2]:
        run(operation, now=now)
    # the last one still waits, however old it is
    Operation.objects.filter(pk=done[1].pk).update(ended_at=now + 100 * DAY)
    assert tick(after=399 * DAY)["operations"] == 0
    settings.TENFOUR = settings.TENFOUR | {"EVENT_DAYS": 0}
    assert tick(after=999 * DAY)["operations"] == 0
    settings.TENFOUR = settings.TENFOUR | {"EVENT_DAYS": 400}
    assert tick(after=401 * DAY)["operations"] == 1
    assert set(Operation.objects.values_list("pk", flat=True)) == {done[1].pk, done[2].pk}
    assert OperationItem.objects.count() == 2


def test_a_run_deletes_for_a_limited_time(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired_rows, "SLICE_SECONDS", 0)
    monkeypatch.setattr(idempotency, "KEYS_DELETED", 1)
    token = make_token_of(agent)
    for key in "ab":
        IdempotencyKey.objects.create(
            token=token, key=key, fingerprint=b"x", expires_at=timezone.now() - DAY
        )
    assert [tick()["idempotency_keys"] for _ in range(3)] == [1, 1, 0]


def test_threads_of_notifications_go_after_their_deliveries(agent: Agent, settings: Any) -> None:
    settings.TENFOUR = settings.TENFOUR | {"DELIVERY_DAYS": 30}
    old = timezone.now() - 40 * DAY
    channel = make_channel(project=agent.project, now=old)
    rule = make_notification_rule(channel, now=old)
    threads = [
        NotificationThread.objects.create(
            id=first_id(old + n * timedelta(seconds=1)),
            rule=rule,
            topic=f"task:{n}",
            subject_type="task",
            subject_id=agent.pk,
            project=agent.project,
            title="x",
            is_open=closed_at is None,
            opened_at=old,
            closed_at=closed_at,
        )
        for n, closed_at in enumerate((old, old, None, timezone.now()))
    ]
    make_delivery(channel, now=old, thread=threads[1])
    assert tick()["notification_threads"] == 1
    assert set(NotificationThread.objects.all()) == set(threads[1:])
