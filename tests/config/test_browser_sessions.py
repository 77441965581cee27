"""The sessions of browsers, in PostgreSQL and in Redis."""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from config.requests.browser_sessions import SessionStore
from ledger.models import SignIn
from ledger.people import browsers


@pytest.mark.django_db(transaction=True)
def test_a_request_before_the_commit_does_not_bring_an_ended_session_back(
    elsewhere: Callable[..., Future[Any]],
) -> None:
    """It still reads the row, and copies it to Redis."""
    session = SessionStore()
    session["theme"] = "dark"
    session.save()
    key = str(session.session_key)
    now = datetime(2026, 3, 2, tzinfo=UTC)
    user = User.objects.create_user("mara")
    browsers.note_sign_in(
        user, session_key=key, method="password", address="", user_agent="", now=now
    )
    with transaction.atomic():
        assert browsers.end_browsers(SignIn.objects.all()) == 1
        assert elsewhere(lambda: SessionStore(key).load()).result() == {"theme": "dark"}
    assert SessionStore(key).load() == {}
