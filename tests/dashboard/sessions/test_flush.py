"""The flush button waits for a held lock and says when it gives up; failed batches are retried."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.test import Client
from pytest_django import Settings

from ledger.models import Agent, Message, Session, SessionBatch, SessionTask
from ledger.sessions import batches
from tests.dashboard.seen import html, words
from tests.dashboard.sessions.conversations import make_session, todo

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_flush_processes_the_buffer(browser: Client, agent: Agent, now: datetime) -> None:
    """S2.10: everything that is pending is processed by the real tracker, and the page says so."""
    lines = [*todo("1", "Reproduce it"), *todo("2", "Fix it")]
    session = make_session(agent, lines, now=now, pending=4)
    path = f"/sessions/{session.pk}/"
    page = browser.post(f"{path}flush/", follow=True)
    assert "Processed 4 messages: 2 new to-dos." in words(page)
    assert page.redirect_chain == [(path, 302)]
    assert set(Message.objects.values_list("state", flat=True)) == {"success"}
    assert list(SessionTask.objects.order_by("order").values_list("description", flat=True)) == [
        "Reproduce it",
        "Fix it",
    ]
    assert "of 16 messages buffered" not in words(page) and "Reproduce it" in words(page)
    again = browser.post(f"{path}flush/", {"next": "/sessions/?q=agent:coder"}, follow=True)
    assert "The buffer was empty already." in words(again)
    assert again.redirect_chain == [("/sessions/?q=agent:coder", 302)]


def test_a_flush_that_gives_up_says_so(
    browser: Client, agent: Agent, now: datetime, settings: Settings
) -> None:
    """S2.12: another worker holds the lock; nothing is lost, and the answer is 503."""
    limits = {
        "SESSION_MESSAGE_FLUSH_MAX_RETRIES": 2,
        "SESSION_MESSAGE_SESSION_LOCK_WAIT_SECONDS": 0,
    }
    settings.TENFOUR = settings.TENFOUR | limits
    session = make_session(agent, todo("1", "Reproduce it"), now=now, pending=2)
    Session.objects.filter(pk=session.pk).update(
        lock_token=uuid4(), lock_until=now + timedelta(hours=1)
    )
    path = f"/sessions/{session.pk}/"
    page = browser.post(f"{path}flush/")
    text = html(page, 503)
    assert "gave up after 2 retries" in text and "Try again" in text and 'id="gave-up"' in text
    assert "the 2 messages stay in the buffer" in text and page["Retry-After"] == "0"
    listed = browser.post(f"{path}flush/", {"next": "/sessions/"}, follow=True)
    assert "The buffer was not flushed." in words(listed)
    assert set(Message.objects.values_list("state", flat=True)) == {"pending"}


def test_a_failed_batch_is_processed_again(browser: Client, agent: Agent, now: datetime) -> None:
    lines = [*todo("1", "Reproduce it"), *todo("2", "Fix it")]
    session = make_session(agent, lines, now=now, pending=4, tracker="llm")
    lock = batches.take_lock(session.pk)
    assert lock
    taken = batches.begin_batch(lock, most=32, last=9, now=now)
    assert taken
    batches.end_batch(lock, taken.id, failure="The model answered turtles", now=now)
    batches.release_lock(lock)
    path = f"/sessions/{session.pk}/"
    page = browser.get(path)
    assert "4 messages of this session are marked as failed" in words(page)
    assert 'value="todo"' in html(page)
    answered = browser.post(f"{path}retry/", {"tracker": "todo"}, follow=True)
    assert "4 messages will be processed again." in words(answered)
    assert "failed-batch" not in html(browser.get(path))
    browser.post(f"{path}flush/")
    assert set(Message.objects.values_list("state", flat=True)) == {"success"}
    assert SessionTask.objects.count() == 2
    assert list(SessionBatch.objects.order_by("id").values_list("outcome", flat=True)) == [
        "failed",
        "success",
    ]
    again = browser.post(f"{path}retry/", follow=True)
    assert "No message of this session is marked as failed." in words(again)
