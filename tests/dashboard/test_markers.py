"""Markers: deploys and other changes on charts of time, in the API and on pages."""

from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.charts.markers import DRAWN
from ledger import markers
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Event, Marker, Project
from retries.models import FailurePattern
from retries.retention import expired_rows
from tests.conftest import Api
from tests.dashboard.seen import html
from tests.dashboard.worked import buried
from tests.factories import make_project, make_token

pytestmark = pytest.mark.django_db

DEPLOY = {"name": "deploy 2024.11", "link": "https://ci.example.com/runs/1"}
MINUTE = timedelta(minutes=1)


@pytest.fixture
def producer(project: Project) -> Api:
    return Api(make_token("orchestrator"))


def mark(at: datetime, name: str = "deploy", project: Project | None = None) -> Marker:
    return Marker.objects.create(
        project=project or make_project(), name=name, kind="deploy", at=at, created_by="ci"
    )


def test_a_marker_is_set_listed_and_deleted(producer: Api) -> None:
    made = producer("POST", "/markers", DEPLOY)
    assert made.status_code == 201
    assert (made.body["kind"], made.body["name"]) == ("deploy", "deploy 2024.11")
    moment = datetime.fromisoformat(made.body["at"])
    assert abs(timezone.now() - moment) < MINUTE
    for query, found in (("", 1), ("?kind=deploy", 1), ("?kind=change", 0), ("?limit=1", 1)):
        listed = producer("GET", f"/markers{query}").body["data"]
        assert len(listed) == found, query
    later = (moment + MINUTE).isoformat().replace("+", "%2B")
    assert producer("GET", f"/markers?since={later}").body["data"] == []
    assert len(producer("GET", f"/markers?until={later}").body["data"]) == 1
    gone = producer("DELETE", f"/markers/{made.body['id']}")
    assert gone.body["name"] == "deploy 2024.11" and not Marker.objects.exists()
    assert producer("DELETE", f"/markers/{made.body['id']}").status_code == 404
    events = Event.objects.filter(subject_type="marker").order_by("id")
    assert [each.kind for each in events] == [Kind.MARKER_CREATED, Kind.MARKER_DELETED]


def test_a_repeated_key_sets_one_marker(producer: Api) -> None:
    first, again = (
        producer("POST", "/markers", DEPLOY, Idempotency_Key="deploy-1734") for _ in range(2)
    )
    assert first.body == again.body and again["Idempotency-Replayed"] == "true"
    assert Marker.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": " \u202e "}, "/name"),
        ({"name": "x" * 121}, "/name"),
        ({"kind": " "}, "/kind"),
        ({"link": "javascript:alert(1)"}, "/link"),
        ({"link": "https://me:secret@example.com/"}, "/link"),
        ({"link": "https://exa mple.com/"}, "/link"),
        ({"link": "https://[::1"}, "/link"),
        ({"at": "2019-01-01T00:00:00Z"}, "/at"),
        ({"at": "yesterday"}, "/at"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_a_marker_that_makes_no_sense_is_refused(
    producer: Api, change: dict[str, str], pointer: str
) -> None:
    refused = producer("POST", "/markers", DEPLOY | change)
    assert refused.status_code == 422, refused.body
    assert refused.body["errors"][0]["pointer"] == pointer
    assert not Marker.objects.exists()


def test_secrets_are_masked_and_texts_cleaned(producer: Api) -> None:
    text = "deploy\u202e password=hunter2hunter2"
    made = producer("POST", "/markers", {"name": text, "text": text, "kind": "change"}).body
    assert "hunter2" not in str(made) and "\u202e" not in str(made)


def test_other_projects_see_nothing(producer: Api) -> None:
    other = mark(timezone.now(), project=make_project("other"))
    assert producer("GET", "/markers").body["data"] == []
    assert producer("DELETE", f"/markers/{other.pk}").status_code == 404
    assert Marker.objects.filter(pk=other.pk).exists()


def test_old_markers_expire_with_the_journal(project: Project) -> None:
    now = timezone.now()
    days = settings.TENFOUR["EVENT_DAYS"]
    old, new = (mark(now - timedelta(days=age)) for age in (days + 1, days - 1))
    assert expired_rows.delete_expired(now=now)["markers"] == 1
    assert list(Marker.objects.all()) == [new] and old != new


# ---- on pages


def test_charts_draw_the_newest_markers_and_count_the_others(
    browser: Client, agent: Agent, project: Project
) -> None:
    now = timezone.now()
    buried(agent=agent, now=now)
    start = now - timedelta(minutes=50)
    Marker.objects.bulk_create(
        Marker(project=project, name=f"n{number}", kind="deploy", at=start, created_by="ci")
        for number in range(10_000)
    )
    pattern = FailurePattern.objects.get()
    for path in ("/activity/", "/", f"/patterns/{pattern.pk}/"):
        with CaptureQueriesContext(connection) as ran:
            page = html(browser.get(path))
        assert f"{DRAWN} markers and {10_000 - DRAWN:,} more" in page, path
        assert page.count("<title>deploy n") % DRAWN == 0 and "<title>deploy n" in page, path
        assert len(ran.captured_queries) <= 15, path


def test_a_marker_is_deleted_in_activity(browser: Client, project: Project) -> None:
    marker = mark(timezone.now() - MINUTE, "2024.11")
    page = html(browser.get("/activity/"))
    assert f"/markers/{marker.pk}/delete/" in page and "deploy 2024.11" in page
    for said in ("is deleted", "was already deleted"):
        answer = browser.post(f"/markers/{marker.pk}/delete/", {"next": "/activity/"}, follow=True)
        assert said in html(answer)
    assert not Marker.objects.exists()


def test_a_pattern_says_after_which_deploy_it_was_first_seen(
    browser: Client, agent: Agent, project: Project
) -> None:
    now = timezone.now()
    buried(agent=agent, now=now)
    pattern, reader = FailurePattern.objects.get(), Api(make_token("reader"))
    first = pattern.first_seen
    address = f"/patterns/{pattern.pk}"
    for at in (first - timedelta(hours=25), first + MINUTE):
        mark(at, "too far")
    mark(first - MINUTE, "elsewhere", make_project("other"))
    assert reader("GET", address).body["first_seen_after"] is None
    assert "first-seen-after" not in html(browser.get(f"{address}/"))
    mark(first - 5 * MINUTE, "deploy 2024.10")
    mark(first - 4 * MINUTE, "deploy 2024.11")
    after = reader("GET", address).body["first_seen_after"]
    assert (after["marker"]["name"], after["seconds"]) == ("deploy 2024.11", 240)
    page = " ".join(html(browser.get(f"{address}/")).split())
    assert "4 minutes after <bdi>deploy 2024.11</bdi>" in page


def test_the_verbs_name_what_they_did(project: Project) -> None:
    stamp = Stamp(SYSTEM, timezone.now())
    made = markers.create_marker("2024.11", project=project, stamp=stamp)
    assert made.label == "deploy 2024.11"
    assert markers.delete_marker(made, stamp=stamp)
    assert not markers.delete_marker(made, stamp=stamp)
