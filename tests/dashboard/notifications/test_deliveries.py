"""The Deliveries page: what left, what came back, and once more."""

import re
from datetime import datetime, timedelta

from django.test import Client

from ledger.models import Project
from retries.models.notification_delivery import DeliveryState
from tests.dashboard.notifications.deliveries import make_channel, make_delivery
from tests.dashboard.seen import Part, html, key, rows, words
from tests.factories import make_project

URL = "/settings/deliveries/"
HOSTILE = "<script>alert(1)</script> Rename the column"


def test_deliveries_are_listed_filtered_and_opened(
    browser: Client, part: Part, project: Project, now: datetime
) -> None:
    mirror = make_channel(project=project, now=now)
    slack = make_channel("#oncall", kind="person", service="Slack", project=project, now=now)
    elsewhere = make_channel("Other", project=make_project("demo"), now=now)
    at = now - timedelta(hours=3)
    done = make_delivery(slack, now=at, kind="plan.completed")
    bad = make_delivery(
        mirror,
        DeliveryState.RETRYING,
        codes=(503, None, 503),
        now=at,
        response="<html>503</html>",
        title=HOSTILE,
    )
    gone = make_delivery(mirror, DeliveryState.GAVE_UP, codes=(410,), now=now, kind="task.failed")
    unsent = make_delivery(mirror, DeliveryState.NOT_SENT, codes=(), now=now)
    held = make_delivery(slack, DeliveryState.HELD, codes=(), now=now)
    make_delivery(elsewhere, now=now)
    page = browser.get(URL, {"project": "default"})
    assert rows(page, "delivery") == [str(each.pk) for each in (held, unsent, gone, bad, done)]
    assert "All 5 Retrying 1 Gave up 1 Delivered 1 Not sent 1 Held back 1" in words(page)
    assert "1 gave up" in words(page) and "3/10 503 214 ms" in words(page)
    for query, wanted in {
        "state:gave-up": [gone],
        "channel:mirror": [unsent, gone, bad],
        "event:task.*": [gone],
        "code:5xx": [bad],
        "code:none": [held, unsent],
        "older:2h": [bad, done],
        "rename": [bad],
        f"{done.pk}": [done],
        "event:plan.completed channel:oncall": [done],
    }.items():
        found = rows(browser.get(URL, {"q": query, "project": "default"}), "delivery")
        assert found == [str(each.pk) for each in wanted], query
    assert "No deliveries match" in words(browser.get(URL, {"q": "nothing-like-it"}))
    assert "“code:x” is not a status." in words(browser.get(URL, {"q": "code:x older:1"}))
    opened = browser.get(URL, {"open": str(bad.pk)})
    text, raw = words(opened), opened.content.decode()
    assert "<script>alert" not in raw and "&lt;html&gt;503&lt;/html&gt;" in raw
    assert "503 Service Unavailable after 1.9 s" in text and "no answer within 15 s" in text
    assert f"webhook-id: {bad.message_id}" in text and "the same ID at each try" in text
    since = key(opened)
    assert part(URL, since=since).status_code == 204
    make_delivery(mirror, now=now)
    assert part(URL, since=since).status_code == 200
    limit = make_delivery(mirror, now=now, subject_type="limit", subject_id=bad.pk)
    link = re.compile(r'href="/limits/[^"]*"[^>]*>\s*Open the limits')
    assert link.search(html(browser.get(URL, {"open": str(limit.pk)})))


def test_pages_of_deliveries_are_as_fast_as_the_first(
    browser: Client, project: Project, now: datetime
) -> None:
    channel = make_channel(project=project, now=now)
    made = [make_delivery(channel, now=now) for _ in range(90)]
    first = browser.get(URL)
    assert len(rows(first, "delivery")) == 40 and "Newest 40 of 90" in words(first)
    older = browser.get(URL, {"before": rows(first, "delivery")[-1]})
    assert rows(older, "delivery")[0] == str(made[49].pk) and 'rel="prev"' in html(older)


def test_a_range_is_counted_before_it_is_sent(
    browser: Client, project: Project, now: datetime
) -> None:
    channel = make_channel(project=project, now=now)
    for state in (DeliveryState.GAVE_UP, DeliveryState.NOT_SENT, DeliveryState.DELIVERED):
        make_delivery(channel, state, now=now)
    asked = {"range": "yes", "to": str(channel.pk)}
    assert "2 deliveries , oldest first" in words(browser.get(URL, asked))
    assert "3 deliveries , oldest first" in words(browser.get(URL, asked | {"which": "all"}))
    nothing = asked | {"from": "2020-01-01T00:00", "until": "2020-01-02T00:00"}
    assert "0 deliveries , oldest first" in words(browser.get(URL, nothing))
    assert "Redeliver 0" not in words(browser.get(URL, nothing))
    assert "must be before" in words(
        browser.get(URL, asked | {"from": "2020-01-03T00:00", "until": "2020-01-02T00:00"})
    )
