"""The clock's entry `journal`: months ahead, and months that are past."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from ledger.access import audit
from ledger.journal_storage.months import AHEAD, list_partitions, month_of
from ledger.models import Event, SignInRecord
from ledger.values.ids import first_id
from retries import sweeps
from retries.retention import archives, event_months, journal_upkeep, running
from tests.factories import make_agent, make_project, send
from tests.journal_partitions import insert_event, lay_out, own_partitions
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


@pytest.fixture
def months() -> Iterator[None]:
    with own_partitions():
        yield


def test_records_of_sign_ins_go_with_the_events_of_their_time(
    months: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    young, *_ = (
        SignInRecord.objects.create(
            pk=first_id(now - days * DAY), outcome="signed_in", username="mara", method="password"
        )
        for days in (394, 396, 500, 900)
    )
    settings.TENFOUR = settings.TENFOUR | {"EVENT_DAYS": 0}
    assert sweeps.run("journal", now=now)["sign_ins"] == 0
    settings.TENFOUR = settings.TENFOUR | {"EVENT_DAYS": 395}
    monkeypatch.setattr(journal_upkeep, "SIGN_INS_A_RUN", 2)
    assert [sweeps.run("journal", now=now)["sign_ins"] for _ in range(3)] == [2, 1, 0]
    assert SignInRecord.objects.get() == young


def test_months_that_are_past_go_one_a_run_and_the_rest_stays(
    months: None, settings: Any, tmp_path: Path
) -> None:
    """Each into the archive first; without a folder to write to, all stay."""
    now = timezone.now()
    agent = make_agent()
    lay_out(month_of(now - 450 * DAY), months=14)
    old = [insert_event(agent, after=-days * DAY) for days in (900, 430, 380, 40)]
    kept = send(agent, "Look at it")
    did = sweeps.run("journal", project=make_project())
    assert not any(did.values())
    settings.TENFOUR = settings.TENFOUR | {"EVENT_DAYS": 0}
    did = sweeps.run("journal", now=now)
    # on the last day of a month, the tail's partition includes the next month
    assert did["made"] in {AHEAD, AHEAD + 1} and did["dropped"] == 0
    assert Event.objects.count() >= 5
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    settings.TENFOUR = settings.TENFOUR | {"EVENT_DAYS": 395, "ARCHIVE": str(blocked / "archive")}
    did = sweeps.run("journal", now=now)
    assert (did["dropped"], did["put_off"]) == (0, 1)
    assert did["error"].startswith("The journal keeps a past month. The archive can't be written:")
    assert Event.objects.filter(pk__in=old).count() == len(old)
    folder = tmp_path / "archive"
    settings.TENFOUR = settings.TENFOUR | {"ARCHIVE": str(folder)}
    runs = [sweeps.run("journal", now=now)["dropped"] for _ in range(5)]
    assert runs[0] == 1 and runs[-1] == 0 and set(runs) == {0, 1}
    start = list_partitions()[0].start
    assert start and now - 395 * DAY - 31 * DAY < start <= now - 395 * DAY
    assert (
        list(Event.objects.filter(pk__in=old).order_by("pk").values_list("pk", flat=True))
        == (old[2:])
    )
    assert Event.objects.about(kept).exists() and list(audit.audit()) == []
    for id in old:
        found = [
            each["event"]["id"] for each in archives.find_records(folder, str(id), pytest.fail)
        ]
        assert found == ([str(id)] if id in old[:2] else [])


def test_a_month_that_takes_several_runs_is_archived_once(
    months: None, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run continues after the last batch of one that ended or was cut short."""
    now = timezone.now()
    agent = make_agent()
    lay_out(month_of(now - 450 * DAY), months=14)
    old = [insert_event(agent, after=-(900 - day) * DAY) for day in range(10)]
    folder = tmp_path / "archive"
    settings.TENFOUR = settings.TENFOUR | {"EVENT_DAYS": 395, "ARCHIVE": str(folder)}
    monkeypatch.setattr(event_months, "EVENTS_READ", 2)
    monkeypatch.setattr(event_months, "SLICE_SECONDS", 0)
    month = list_partitions()[0]
    for run in range(1, 3):
        did = sweeps.run("journal", now=now)
        assert (did["dropped"], did["put_off"]) == (0, 0)
        assert did["resume_after"] == {month.name: str(old[2 * run - 1])}
    # a worker that is killed after one more batch stores nothing at the end of its run
    append, written = archives.Writer.append, []

    def append_once(self: archives.Writer, records: Any) -> None:
        if written:
            raise KeyboardInterrupt
        append(self, records)
        written.append(records)

    monkeypatch.setattr(event_months, "SLICE_SECONDS", 60)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(archives.Writer, "append", append_once)
        sweeps.run("journal", now=now)
    assert list_partitions()[0] == month and Event.objects.filter(pk__in=old).count() == len(old)
    did = sweeps.run("journal", now=now)
    assert did["dropped"] == 1 and "resume_after" not in did
    assert not Event.objects.filter(pk__in=old).exists()
    (path,) = archives.list_files(folder)
    records = archives.read_records(path, pytest.fail)
    assert [record["event"]["id"] for _, record in records] == [str(id) for id in old]


def test_a_month_that_someone_began_to_detach_is_archived_before_it_goes(
    months: None, settings: Any, tmp_path: Path, elsewhere: Any
) -> None:
    folder = tmp_path / "archive"
    old = keep_an_old_month(settings, folder)
    name = list_partitions()[0].name

    def detach() -> None:
        with connection.cursor() as cursor:
            cursor.execute("set lock_timeout = '200ms'")
            cursor.execute(f"alter table ledger_event detach partition {name} concurrently")

    with transaction.atomic():
        assert Event.objects.exists()  # a reader of all partitions
        with pytest.raises(OperationalError):
            elsewhere(detach).result(PATIENCE_S)
    assert list_partitions()[0].is_detaching
    assert sweeps.run("journal")["dropped"] == 1
    assert name not in {each.name for each in list_partitions()}
    assert list(archives.find_records(folder, str(old), pytest.fail))


def test_a_month_goes_while_retention_writes_to_the_archive(
    months: None, settings: Any, tmp_path: Path
) -> None:
    """The clock starts both at once, and a run of retention with many rows lasts a minute."""
    now, folder = timezone.now(), tmp_path / "archive"
    old = keep_an_old_month(settings, folder)
    with archives.open_writer(folder, now.date(), archives.ROWS):
        did = sweeps.run("journal", now=now)
    assert (did["dropped"], did["put_off"]) == (1, 0)
    assert list(archives.find_records(folder, str(old), pytest.fail))


def test_two_runs_never_write_to_the_same_part_of_the_archive(
    months: None, settings: Any, tmp_path: Path
) -> None:
    now, folder = timezone.now(), tmp_path / "archive"
    keep_an_old_month(settings, folder)
    settings.TENFOUR = settings.TENFOUR | {"TASK_DAYS": 30}
    with archives.open_writer(folder, now.date(), archives.JOURNAL):
        assert sweeps.run("journal", now=now)["put_off"] == 1
        assert "busy" not in running.delete_old(now=now)
    assert sweeps.run("journal", now=now)["dropped"] == 1


def keep_an_old_month(settings: Any, folder: Path) -> UUID:
    """Lay out a journal whose oldest month is past its time; return its event's id."""
    settings.TENFOUR = settings.TENFOUR | {"EVENT_DAYS": 395, "ARCHIVE": str(folder)}
    lay_out(month_of(timezone.now() - 450 * DAY), months=14)
    return insert_event(make_agent(), after=-900 * DAY)
