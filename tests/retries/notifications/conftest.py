"""The receiver that tests of notifications share."""

from collections.abc import Iterator

import pytest
from django.conf import settings

from tests.retries.notifications.receivers import Receiver, receive


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver whose address TENFOUR_WEBHOOK_ALLOW names."""
    with receive() as running:
        monkeypatch.setitem(settings.TENFOUR, "WEBHOOK_ALLOW", [running.allowed])
        yield running
