"""Webhooks, channels, rules and deliveries over HTTP."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from standardwebhooks.webhooks import Webhook

from ledger.values.timestamps import format_timestamp
from retries.models import Channel, Delivery
from tests.conftest import Api
from tests.factories import make_agent, make_project
from tests.retries.moves import make_task
from tests.retries.notifications.conftest import receiver as receiver
from tests.retries.notifications.receivers import Receiver, run_clock

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_webhook_from_creation_to_deletion(
    receiver: Receiver, operator: Api, api: Callable[..., Api]
) -> None:
    """The secret is shown once; versions guard changes; other projects and agents see nothing."""
    made = operator("POST", "/webhooks", {"name": "mirror", "url": receiver.url})
    assert made.status_code == 201 and made["ETag"] == '"v1"'
    secret, path = made.body["secret"], f"/webhooks/{made.body['id']}"
    read = operator("GET", path)
    assert "secret" not in read.body and secret not in str(read.content)
    assert read.body["address"] == receiver.url and read.body["state"] == "active"
    assert [each["id"] for each in operator("GET", "/webhooks").body["data"]] == [made.body["id"]]
    again = operator("POST", "/webhooks", {"name": "mirror", "url": receiver.url})
    assert again.status_code == 422 and again.body["errors"][0]["pointer"] == "/name"
    assert operator("PATCH", path, {"events": ["task.*"]}).status_code == 428
    stale = operator("PATCH", path, {"events": ["task.*"]}, If_Match='"v9"')
    assert (stale.status_code, stale.body["current"]) == (412, 1)  # AGT-28
    changed = operator("PATCH", path, {"events": ["task.*"]}, If_Match='"v1"')
    assert changed.status_code == 200 and changed.body["version"] == 2
    for stranger in (api("operator", project=make_project("demo")),):
        assert stranger("GET", path).status_code == 404
        assert stranger("DELETE", path).status_code == 404
        assert stranger("GET", "/deliveries").body["data"] == []
    for weak in (api("agent", agent=make_agent()), api("orchestrator"), api("reader")):
        assert weak("GET", "/webhooks").status_code == 403
    tested = operator("POST", f"{path}/test")
    assert tested.body["state"] == "delivered" and tested.body["code"] == 200
    assert tested.body["response"] == "thank you" and tested.body["tries"] == 1
    Webhook(secret).verify(receiver.received[0].body, receiver.received[0].headers)
    receiver.answer = 500
    assert operator("POST", f"{path}/test").body["state"] == "gave_up"
    assert operator("GET", path).body["state"] == "failing"
    receiver.answer = 200
    rotated = operator("POST", f"{path}/rotate", {"overlap_hours": 0})
    operator("POST", f"{path}/test")
    Webhook(rotated.body["secret"]).verify(
        receiver.received[-1].body, receiver.received[-1].headers
    )
    assert receiver.received[-1].headers["webhook-signature"].count("v1,") == 1
    # what is missed while it is off comes by redelivery of a time range
    assert operator("POST", f"{path}/disable").body["disabled_because"] == "by_hand"
    assert operator("POST", f"{path}/enable").body["state"] == "active"
    make_task(make_agent(), now=timezone.now())
    run_clock()
    span = {
        "since": format_timestamp(timezone.now() - timedelta(hours=1)),
        "until": format_timestamp(timezone.now() + timedelta(hours=1)),
    }
    assert operator("POST", f"{path}/redeliver", span).body == {"redelivered": 0}
    span |= {"undelivered_only": False}
    assert operator("POST", f"{path}/redeliver", span).body == {"redelivered": 1}
    run_clock()
    (delivery,) = operator("GET", f"/deliveries?channel={made.body['id']}&kind=task.created").body[
        "data"
    ]
    detail = operator("GET", f"/deliveries/{delivery['id']}").body
    assert detail["body"]["type"] == "task.created" and len(detail["each_try"]) == 1
    assert [each.id for each in receiver.received[-2:]] == [delivery["message_id"]] * 2
    assert operator("POST", f"/deliveries/{delivery['id']}/redeliver").body["state"] == "pending"
    assert operator("DELETE", path).status_code == 200
    assert operator("GET", path).status_code == 404 and not Delivery.objects.exists()


def test_bad_values_have_clear_errors(operator: Api) -> None:
    """A private address, a wrong scheme, an unknown kind, a rule that cannot work."""
    refused: list[tuple[str, dict[str, Any], str, str]] = [
        ("/webhooks", {"name": "x", "url": "http://127.0.0.1/"}, "/url", "TENFOUR_WEBHOOK_ALLOW"),
        ("/webhooks", {"name": "x", "url": "https://[::1]/"}, "/url", "not a public address"),
        ("/webhooks", {"name": "x", "url": "ftp://example.com/"}, "/url", "https://"),
        ("/webhooks", {"name": "x", "url": "https://1.1.1.1:22/"}, "/url", "Port 22"),
        ("/webhooks", {"name": " ", "url": "https://1.1.1.1/"}, "/name", "1 to 64"),
        (
            "/webhooks",
            {"name": "x", "url": "https://1.1.1.1/", "events": ["task.fail"]},
            "/events/0",
            "matches no kind",
        ),
        ("/notification-channels", {"name": "x", "url": "slck://a/b/c"}, "/url", "slack://"),
        (
            "/notification-channels",
            {"name": "x", "url": "json://10.0.0.1/"},
            "/url",
            "not a public address",
        ),
        ("/notification-channels", {"name": "x", "url": "syslog://"}, "/url", "only the computer"),
        (
            "/notification-channels",
            {"name": "x", "url": "slack://a?template=/etc/passwd"},
            "/url",
            "file of the server",
        ),
    ]
    for path, body, pointer, words in refused:
        answer = operator("POST", path, body)
        assert answer.status_code == 422, body
        assert answer.body["errors"][0]["pointer"] == pointer, body
        assert words in answer.body["errors"][0]["detail"], answer.body["errors"][0]["detail"]
    assert not Channel.objects.exists()


def test_a_rule_over_http(receiver: Receiver, operator: Api) -> None:
    """The first channel brings default rules; a rule is created, changed and deleted."""
    url = f"ntfy://127.0.0.1:{receiver.port}/oncall"
    made = operator("POST", "/notification-channels", {"name": "on-call", "url": url})
    assert made.status_code == 201 and made.body["service"] == "ntfy"
    assert len(operator("GET", "/notification-rules").body["data"]) == 4
    channel = made.body["id"]
    for body, pointer in (
        ({"conditions": ["moon"], "channel_id": channel}, "/conditions/0"),
        (
            {
                "conditions": ["plan"],
                "channel_id": channel,
                "second_channel_id": channel,
                "second_after_s": 600,
            },
            "/second_channel",
        ),
        ({"conditions": ["plan"], "channel_id": channel, "quiet_from": "22:00"}, "/quiet_until"),
        ({"conditions": ["plan"], "channel_id": channel, "timezone": "Mars/Base"}, "/timezone"),
        ({"conditions": ["plan"], "channel_id": channel, "repeat_s": 1}, "/repeat_s"),
        (
            {"conditions": ["plan"], "channel_id": "01a1fe6d-9b01-7830-98b6-0164ecc5924c"},
            "/channel_id",
        ),
    ):
        assert operator("POST", "/notification-rules", body).body["errors"][0]["pointer"] == pointer
    rule = operator(
        "POST", "/notification-rules", {"conditions": ["task.completed"], "channel_id": channel}
    )
    assert rule.status_code == 201
    path = f"/notification-rules/{rule.body['id']}"
    changed = operator(
        "PATCH",
        path,
        {"cap_per_hour": 4, "quiet_from": "22:00", "quiet_until": "07:00"},
        If_Match='"v1"',
    )
    assert changed.body["cap_per_hour"] == 4 and changed.body["quiet_from"] == "22:00:00"
    assert operator("PATCH", path, {"enabled": None}, If_Match='"v2"').status_code == 422
    stale = operator("PATCH", path, {"enabled": False}, If_Match='"v9"')
    assert (stale.status_code, stale.body["current"]) == (412, 2)  # AGT-28
    assert operator("DELETE", path).status_code == 200
    assert operator("DELETE", f"/notification-channels/{channel}").status_code == 200
    assert operator("GET", "/notification-rules").body["data"] == []
