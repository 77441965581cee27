"""Sessions in the admin: lists to read and search, for those who may."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ledger.models import Agent, Message, Session, SessionTask
from tests.admin_pages import path
from tests.dashboard.sessions.conversations import HOSTILE, make_busy_session

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 22, 13, 12, tzinfo=UTC)


@pytest.fixture
def mara() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("mara"))
    return client


def test_sessions_are_lists_to_read(mara: Client, agent: Agent) -> None:
    session = make_busy_session(agent, now=NOW)
    first = Message.objects.filter(session=session).order_by("order")[0]
    rows = {Session: session, Message: first, SessionTask: SessionTask.objects.get(order=4)}
    stranger = Client()
    stranger.force_login(User.objects.create_user("eve", is_staff=True))
    for model, row in rows.items():
        page = mara.get(path(model), {"q": str(row.pk)}).content.decode()
        assert str(row.pk) in page and HOSTILE not in page, model
        assert mara.get(path(model, f"{row.pk}/change/")).status_code == 200
        assert mara.get(path(model), {"q": "Rewrite"}).status_code == 200
        assert mara.get(path(model, "add/")).status_code == 403
        assert mara.post(path(model, f"{row.pk}/delete/"), {"post": "yes"}).status_code == 403
        assert stranger.get(path(model)).status_code == 403
