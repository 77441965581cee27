"""Digests: one page for each period, sent once, and nothing where nothing happened."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from ledger import journal
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Cursor, Kind, Stamp
from ledger.models import Agent, Event, Marker, Membership, Preference, Project
from retries.insight.figures import days
from retries.journal_readers import counts
from retries.journal_readers.positions import ensure_cursor
from retries.models import ActivityCount, Channel, Delivery, InsightFigure, StreamCursor
from retries.models.activity_count import DAY, HALF_HOUR
from retries.models.notification_channel import DisabledBecause
from retries.notifications import channels
from retries.notifications.digests import figures, sending
from retries.notifications.digests.periods import find_last, find_next
from retries.notifications.digests.wording import limited
from tests.elsewhere import at_once
from tests.factories import make_agent, make_project
from tests.retries.notifications.receivers import (
    Receiver,
    escalate,
    make_person_channel,
    ntfy,
    run_clock,
    told,
)

pytestmark = pytest.mark.django_db
HOUR, ONE_DAY = timedelta(hours=1), timedelta(days=1)
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)  # a Wednesday
BERLIN = "Europe/Berlin"
COUNTS = [
    *("attempts", "attempts_failed", "busy_s", "tasks_done", "tasks_done_first", "tasks_failed"),
    *("tasks_escalated", "finished_attempts", "sent", "acknowledged_first"),
    *("acknowledged_later", "given_up"),
]


def count(agent: Agent, at: datetime, **counts: int) -> None:
    """Count work at a time, as the clock does: in its half hour and in its day."""
    for minutes in (HALF_HOUR, DAY):
        start = figures.round_down(at, timedelta(minutes=minutes))
        row, _ = ActivityCount.objects.get_or_create(
            minutes=minutes,
            at=start,
            agent=agent,
            project_id=agent.project_id,
            defaults=dict.fromkeys(COUNTS, 0),
        )
        for name, number in counts.items():
            setattr(row, name, getattr(row, name) + number)
        row.save()


def make_channel(project: Project | None, *, now: datetime = NOON, **more: Any) -> Channel:
    values = {"digest": "daily", "digest_hour": 8, "digest_timezone": BERLIN} | more
    channel = make_person_channel("ntfys://1.1.1.1/oncall", project=project, **values)
    sending.schedule(channel, now=now)
    channel.save()
    return channel


def send(now: datetime) -> list[str]:
    """Send what is due; return the texts of all digests, the newest last."""
    sending.send_due(now=now)
    rows = Delivery.objects.filter(kind="digest").order_by("id")
    return [row.body["text"] for row in rows]


@pytest.mark.parametrize(
    ("zone", "first", "after"),
    [
        (BERLIN, "2026-03-28T02:00+01:00", "2026-03-29T03:00+02:00"),  # 2:00 is skipped
        (BERLIN, "2026-10-24T02:00+02:00", "2026-10-25T02:00+02:00"),  # 2:00 comes twice
        ("Asia/Kathmandu", "2026-05-01T02:00+05:45", "2026-05-02T02:00+05:45"),
        ("Australia/Lord_Howe", "2026-10-03T02:00+10:30", "2026-10-04T02:30+11:00"),
    ],
)
def test_a_digest_is_due_once_a_day_through_changes_of_the_clocks(
    zone: str, first: str, after: str
) -> None:
    rule: dict[str, Any] = {"hour": 2, "weekly": False, "timezone": zone}
    one, two = map(datetime.fromisoformat, (first, after))
    assert find_next(one - timedelta(minutes=1), **rule) == one
    assert find_next(one, **rule) == two and find_last(two - timedelta(seconds=1), **rule) == one
    assert find_last(two, **rule) == two
    year = [one]
    while len(year) < 400:
        year.append(find_next(year[-1], **rule))
        assert find_last(year[-1] - timedelta(seconds=1), **rule) == year[-2]
    assert all(22 * HOUR < b - a < 26 * HOUR for a, b in itertools.pairwise(year))


def test_a_week_ends_on_monday() -> None:
    rule: dict[str, Any] = {"hour": 8, "weekly": True, "timezone": BERLIN}
    due = find_next(NOON, **rule)
    assert due == datetime(2026, 11, 30, 7, tzinfo=UTC)
    assert find_last(NOON, **rule) == due - 7 * ONE_DAY == find_last(due - HOUR, **rule)
    assert find_last(due, **rule) == due


def test_a_digest_says_what_changed_waits_and_cost(agent: Agent, project: Project) -> None:
    other = make_agent("alien", project=make_project("other"))
    due = datetime(2026, 11, 26, 7, tzinfo=UTC)
    count(agent, due - ONE_DAY, tasks_done=3, attempts=5)  # the first half hour of the period
    count(agent, due - timedelta(minutes=1), tasks_done=4, tasks_failed=1, attempts=6)
    count(agent, due - 6 * HOUR, tasks_done=1, tasks_escalated=2, attempts=2)
    count(agent, due, tasks_done=100)  # after it
    count(agent, due - ONE_DAY - HOUR, tasks_done=20, attempts=20)  # before it
    count(other, due - HOUR, tasks_done=1000)
    data = {"cost": 12.5, "tokens": 4000}
    InsightFigure.objects.create(
        project=project,
        panel=days.PANEL,
        days=0,
        computed_at=due,
        data={"until": "", "days": {"2026-11-25": data, "2026-11-24": {"cost": 7, "tokens": 1}}},
    )
    Marker.objects.create(project=project, name="deploy 12", kind="deploy", at=due - HOUR)
    channel = make_channel(project)
    assert channel.digest_due_at == due
    assert send(due + timedelta(seconds=59)) == []
    (text,) = send(due + timedelta(minutes=1))
    for line in (
        "Day to Thu 26 Nov: 8 done.",
        "- 8 tasks done (before: 20)",
        "- 1 task failed permanently (before: 0)",
        "- 2 tasks escalated (before: 0)",
        "- 13 attempts (before: 20)",
        "- markers: deploy 12",
        "What waits\n- nothing",
        "- $12.50, 4,000 tokens (2026-11-25, UTC), $1.56 for each task done",
        "From 2026-11-25 08:00 to 2026-11-26 08:00, Europe/Berlin.",
        f"?project={project.name}",
    ):
        assert line in text, line
    assert len(text) < 2000
    # once, whatever the clock does
    assert send(due + HOUR) == [text]
    channel.refresh_from_db()
    assert channel.digest_due_at == due + ONE_DAY


def test_a_week_adds_up_days_and_half_hours(agent: Agent, project: Project) -> None:
    due = datetime(2026, 11, 30, 7, tzinfo=UTC)
    for hours in range(-24, 7 * 24 + 24):
        count(agent, due - 7 * ONE_DAY + hours * HOUR, tasks_done=1)
    for zone, shift in (("UTC", HOUR), (BERLIN, 0 * HOUR), ("Asia/Kathmandu", -4.75 * HOUR)):
        until = due + shift
        found = figures.read_figures(
            [project.pk], name="", since=until - 7 * ONE_DAY, until=until, with_details=False
        )
        assert (zone, found.now.done) == (zone, 7 * 24)
    short = figures.read_activity([project.pk], due, due + 2 * HOUR)
    assert short.done == 2


def test_nothing_is_sent_where_nothing_happened(agent: Agent, project: Project) -> None:
    channel = make_channel(project)
    due = channel.digest_due_at
    assert due and send(due + HOUR) == []
    channel.refresh_from_db()
    assert channel.digest_due_at == due + ONE_DAY
    # a stop of the clock: one digest for all of it
    count(agent, due + HOUR, tasks_done=1)
    (text,) = send(due + 3 * ONE_DAY + HOUR)
    assert "From 2026-11-26 08:00 to 2026-11-29 08:00" in text
    assert text.startswith("3 days to Sun 29 Nov: 1 done.")
    channel.refresh_from_db()
    assert channel.digest_due_at == due + 4 * ONE_DAY


def test_open_escalations_wait_with_clipped_text(agent: Agent, project: Project) -> None:
    asked = escalate(agent, "<b>Rename</b> " + "x" * 180)
    channel = make_channel(project, now=asked.opened_at)
    assert channel.digest_due_at
    (text,) = send(channel.digest_due_at + HOUR)
    assert "1 open escalation, the oldest first:\n-   <b>Rename</b> xxx" in text
    assert "x" * 91 not in text and "secret text" not in text and "KeyError" not in text
    assert ", 1 needs an answer." in text
    channels.update_channel(channel.pk, version=None, stamp=Stamp(SYSTEM), include_details=True)
    channel.refresh_from_db()
    _, message = sending.preview(channel, now=channel.digest_due_at)
    assert "1 open escalation" in message.text


def test_new_patterns_are_named_with_details_alone(agent: Agent, project: Project) -> None:
    asked = escalate(agent)
    for details in (False, True):
        since, until = asked.opened_at - HOUR, asked.opened_at + HOUR
        found = figures.read_figures(None, name="", since=since, until=until, with_details=details)
        assert found.patterns == 1 and bool(found.pattern_texts) == details


def test_a_persons_zone_and_access_count(agent: Agent, project: Project) -> None:
    mara = User.objects.create_user("mara")
    Preference.objects.create(user=mara, time_zone="America/New_York")
    channel = make_channel(project, person=mara)
    assert channel.digest_due_at == datetime(2026, 11, 25, 13, tzinfo=UTC)
    count(agent, NOON - HOUR, tasks_done=1)
    assert send(channel.digest_due_at + HOUR) == []  # no member
    Membership.objects.create(user=mara, project=project, role="viewer")
    count(agent, NOON + 5 * HOUR, tasks_done=1)
    (text,) = send(channel.digest_due_at + ONE_DAY + HOUR)
    assert "America/New_York" in text


def test_a_change_of_the_persons_zone_loses_no_hour_and_repeats_none(
    agent: Agent, project: Project
) -> None:
    mara = User.objects.create_user("mara")
    Membership.objects.create(user=mara, project=project, role="viewer")
    chosen = Preference.objects.create(user=mara, time_zone=BERLIN)
    channel = make_channel(project, person=mara)
    due = channel.digest_due_at
    assert due == datetime(2026, 11, 26, 7, tzinfo=UTC)
    for hours in range(48):
        count(agent, due - ONE_DAY + hours * HOUR, tasks_done=1)
    for zone, moved in (("America/New_York", 6), ("Asia/Tokyo", 16)):
        Delivery.objects.all().delete()
        Channel.objects.filter(pk=channel.pk).update(digest_due_at=due)
        Preference.objects.filter(pk=chosen.pk).update(time_zone=zone)
        (first,) = send(due + HOUR / 2)
        assert "- 24 tasks done" in first, zone
        channel.refresh_from_db()
        assert channel.digest_due_at == due + moved * HOUR
        _, second = send(channel.digest_due_at + HOUR / 2)
        assert f"- {moved} tasks done" in second, zone


def test_a_digest_waits_until_the_events_before_it_are_counted(agent: Agent) -> None:
    channel = make_channel(agent.project)
    due = channel.digest_due_at
    assert due
    newest = Event.objects.latest("tx", "id")
    ensure_cursor(counts.READER, start=Cursor(newest.tx, str(newest.pk)), now=due)
    count(agent, due - HOUR, tasks_done=1)
    journal.record(
        Kind.AGENT_SILENT,
        subject_type="agent",
        subject_id=agent.pk,
        project_id=agent.project_id,
        stamp=Stamp(SYSTEM, due + HOUR),
    )
    assert len(send(due + HOUR)) == 1
    count(agent, due + HOUR, tasks_done=1)
    assert len(send(due + ONE_DAY + HOUR)) == 1
    StreamCursor.objects.update(tx=2**62)
    assert len(send(due + ONE_DAY + HOUR)) == 2


def test_a_digest_that_fails_stops_no_other(
    agent: Agent, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    broken = make_channel(make_project("other"), name="broken")
    channel = make_channel(project)
    due = channel.digest_due_at
    assert due
    count(agent, due - HOUR, tasks_done=2)
    InsightFigure.objects.create(
        project=broken.project,
        panel=days.PANEL,
        days=0,
        computed_at=due,
        data={"until": "", "days": {"2026-11-25": {"cost": "not a number"}}},
    )
    assert len(send(due + HOUR)) == 1
    assert f"the digest of channel {broken.pk} could not be written" in caplog.text
    assert not Channel.objects.filter(digest_due_at__lte=due + HOUR).exists()


def test_a_zone_that_the_system_does_not_know_any_more_is_utc(
    agent: Agent, project: Project
) -> None:
    mara = User.objects.create_user("mara")
    Membership.objects.create(user=mara, project=project, role="viewer")
    channel = make_channel(project, person=mara)
    due = channel.digest_due_at
    assert due
    count(agent, due - HOUR, tasks_done=2)
    Preference.objects.create(user=mara, time_zone="Mars/Olympus")
    (text,) = send(due + HOUR)
    assert f"{BERLIN}." in text
    Channel.objects.update(digest_timezone="Mars/Base", digest_due_at=due + ONE_DAY)
    count(agent, due + HOUR, tasks_done=2)
    assert "UTC." in send(due + ONE_DAY + HOUR)[1]


def test_a_channel_of_all_projects_adds_them_up(agent: Agent, project: Project) -> None:
    other = make_agent("alien", project=make_project("other"))
    channel = make_channel(None)
    assert channel.digest_due_at
    for each in (agent, other):
        count(each, channel.digest_due_at - HOUR, tasks_done=2)
    (text,) = send(channel.digest_due_at + HOUR)
    assert "4 tasks done" in text and "?project" not in text
    # a person hears of the projects that the person may see
    mara = User.objects.create_user("mara")
    Membership.objects.create(user=mara, project=agent.project, role="viewer")
    own = make_channel(None, name="own", person=mara)
    _, message = sending.preview(own, now=channel.digest_due_at)
    assert "2 tasks done" in message.text


def test_a_disabled_channel_gets_none(agent: Agent, project: Project) -> None:
    channel = make_channel(project)
    assert channel.digest_due_at
    count(agent, channel.digest_due_at - HOUR, tasks_done=2)
    channels.disable_channel(channel.pk, DisabledBecause.BY_HAND, stamp=Stamp(SYSTEM))
    assert send(channel.digest_due_at + HOUR) == []
    channel.refresh_from_db()
    assert channel.digest_due_at > NOON + ONE_DAY


def test_a_digest_is_scheduled_with_its_channel(project: Project) -> None:
    stamp = Stamp(SYSTEM, NOON)
    channel = make_channel(project, digest="off")
    assert channel.digest_due_at is None
    changed = channels.update_channel(
        channel.pk, version=None, stamp=stamp, digest="weekly", digest_hour=0
    )
    assert changed.digest_due_at == datetime(2026, 11, 29, 23, tzinfo=UTC)
    for wrong in (
        {"digest": "hourly"},
        {"digest_hour": 24},
        {"digest_hour": -1},
        {"digest_timezone": "Mars/Olympus"},
    ):
        with pytest.raises(Invalid):
            channels.update_channel(channel.pk, version=None, stamp=stamp, **wrong)
    off = channels.update_channel(channel.pk, version=None, stamp=stamp, digest="off")
    assert off.digest_due_at is None and sending.send_due(now=NOON + 30 * ONE_DAY) == 0


def test_numbers_end_at_a_limit() -> None:
    assert [limited(n, "letter") for n in (0, 1, 1000)] == [
        "0 letters",
        "1 letter",
        "1,000 or more letters",
    ]


@pytest.mark.django_db(transaction=True)
def test_two_clocks_send_a_digest_once(receiver: Receiver) -> None:
    agent = make_agent("coder")
    channel = make_person_channel(ntfy(receiver), project=agent.project, digest="daily")
    due = channel.digest_due_at
    assert due
    count(agent, due - HOUR, tasks_done=2)

    assert sum(at_once(4, lambda _: sending.send_due(now=due + HOUR))) == 1
    Delivery.objects.update(next_try_at=timezone.now())
    run_clock()
    ((_, title),) = told(receiver)
    assert "2 done" in title
    assert Delivery.objects.filter(kind="digest").count() == 1
