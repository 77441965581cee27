"""The admin's lists of notifications, and the metrics of webhooks."""

import pytest
from django.test import Client
from django.utils import timezone

from config.monitoring.metrics import scrape
from retries.models import Channel, Delivery, NotificationRule, QuietHours
from retries.notifications.rules import editing as rules
from tests.admin_pages import act, path
from tests.admin_pages import mara as mara
from tests.factories import make_agent, make_project
from tests.retries.moves import make_task
from tests.retries.notifications.receivers import (
    Receiver,
    make_person_channel,
    make_webhook,
    run_clock,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_lists_show_no_secret_and_metrics_count_tries(receiver: Receiver, mara: Client) -> None:
    """Every list and row can be read, nothing can be edited, and a delivery is sent again."""
    from django.contrib.auth.models import User

    project, user = make_project(), User.objects.get()
    made = make_webhook(receiver, project=project, events=("task.*",))
    url = f"ntfy://user:hunter2secret@127.0.0.1:{receiver.port}/oncall"
    make_person_channel(url, project=project)
    at = timezone.now().time().replace(microsecond=0)
    rules.set_quiet_hours(user, starts=at, ends=at, timezone="UTC")
    receiver.answer = 503
    make_task(make_agent(), now=timezone.now(), title="<script>alert(1)</script>")
    run_clock()
    for model in (Channel, NotificationRule, Delivery, QuietHours):
        row = model.objects.first()
        pages = [mara.get(path(model)), mara.get(path(model, f"{row.pk}/change/"))]
        assert [page.status_code for page in pages] == [200, 200], model
        text = "".join(page.content.decode() for page in pages)
        assert "hunter2secret" not in text and made.secret not in text
        assert "<script>alert" not in text and "gAAAA" not in text
        assert mara.post(path(model, f"{row.pk}/change/"), {}).status_code == 403
    lines = scrape(project.id).decode().splitlines()
    labels = '{event_type="task.created",status_class="5xx"}'
    assert f"tenfour_webhook_deliveries_total{labels} 1.0" in lines
    assert f"tenfour_webhook_delivery_seconds_count{labels} 1.0" in lines
    assert 'tenfour_webhook_backlog{event_type="task.created"} 1.0' in lines
    receiver.answer = 200
    delivery = Delivery.objects.get()
    assert "1" in act(mara, Delivery, "redeliver", delivery)
    Channel.objects.update(resume_at=None)
    run_clock()
    delivery.refresh_from_db()
    assert delivery.state == "delivered"
