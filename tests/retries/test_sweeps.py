"""The clock: each entry runs when it is due, once however many beats tick, and by hand."""

from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from ledger.models import Agent, ClockRun
from retries import sweeps
from retries.jobs import run_entry
from tests.factories import MINUTE, NOW, make_agent, make_project, pull, send, state_of
from tests.retries.moves import claim, make_task
from tests.waiting import PATIENCE_S

SECOND, MINUTES = timedelta(seconds=1), timedelta(seconds=60)


@pytest.mark.django_db
def test_an_entry_runs_once_for_two_ticks(agent: Agent) -> None:
    send(agent)
    pull(agent, now=NOW - MINUTE)
    assert sweeps.run_due("idle_check", every=MINUTES, now=NOW) == {"requeued": 1, "given_up": 0}
    assert sweeps.run_due("idle_check", every=MINUTES, now=NOW + timedelta(seconds=1)) is None
    assert sweeps.run_due("idle_check", every=MINUTES, now=NOW + MINUTES) is not None
    run = ClockRun.objects.get()
    assert run.last_run_at == NOW + MINUTES and run.did == {"requeued": 0, "given_up": 0}


@pytest.mark.django_db(transaction=True)
def test_an_entry_that_another_beat_is_taking_is_left_to_it() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def tick() -> Any:
        try:
            return sweeps.run_due("idle_check", every=MINUTES, now=NOW)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        assert sweeps.take_turns({"idle_check": NOW}, now=NOW) == {"idle_check"}
        assert pool.submit(tick).result(PATIENCE_S) is None


@pytest.mark.django_db
def test_the_job_runs_the_entry(agent: Agent) -> None:
    id = send(agent)
    pull(agent)
    run_entry(name="idle_check", every=0)
    assert state_of(id) == "queued" and ClockRun.objects.get().name == "idle_check"


@pytest.mark.django_db
def test_one_job_runs_the_frequent_entries_that_are_due() -> None:
    def run_at(second: int) -> set[str]:
        return {name for name, _ in sweeps.run_frequent(now=NOW + second * SECOND)}

    runs = {second: run_at(second) for second in range(16)}
    assert runs[0] == settings.FREQUENT.keys()
    every_second = {"backoff", "notifications"}
    assert runs[1] == runs[7] == every_second
    assert runs[2] == runs[4] == {*every_second, "operations", "on_call"}
    assert runs[5] == {*every_second, "expire_leases", "breakers", "plans", "sessions"}
    assert runs[15] == settings.FREQUENT.keys() - {"operations", "on_call"}
    assert set(ClockRun.objects.values_list("name", flat=True)) == settings.FREQUENT.keys()


@pytest.mark.django_db(transaction=True)
def test_a_frequent_entry_that_fails_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(BREAK.replace("%s", ""))
    try:
        did = dict(sweeps.run_frequent(now=NOW))
    finally:
        with connection.cursor() as cursor:
            cursor.execute(REPAIR)
    failed = {"notifications", "metrics", "activity", "search_words"} - did.keys()
    assert failed and did.keys() == settings.FREQUENT.keys() - failed
    assert [each for each in caplog.messages if "clock" in each] == [
        f"the clock's entry '{name}' failed" for name in settings.FREQUENT if name in failed
    ]


@pytest.mark.django_db
def test_an_entry_of_a_newer_clock_is_left_to_a_newer_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While versions are mixed, an older worker takes no turn that it can't use."""
    run_entry(name="later", every=60)
    assert not ClockRun.objects.exists()
    assert caplog.messages == [
        "The clock of another version asks for the entry 'later'. It was left."
    ]


@pytest.mark.django_db
def test_the_command_says_what_it_did(agent: Agent) -> None:
    send(agent)
    pull(agent)
    elsewhere = make_agent(project=make_project("demo"))
    send(elsewhere)
    pull(elsewhere)
    assert told("idle_check", project="demo") == "idle_check: 1 requeued, 0 given up\n"
    assert not ClockRun.objects.exists()
    assert told("idle_check") == "idle_check: 1 requeued, 0 given up\n"
    assert told("--list").split() == list(sweeps.ENTRIES)


@pytest.mark.django_db
@pytest.mark.parametrize("args", [["nonsense"], [], ["idle_check", "--project", "nowhere"]])
def test_the_command_refuses_what_it_does_not_know(args: list[str]) -> None:
    with pytest.raises(CommandError):
        told(*args)


def told(*args: str, **options: str) -> str:
    out = StringIO()
    call_command("tick", *args, stdout=out, **options)
    return out.getvalue()


@pytest.mark.django_db
def test_a_last_run_in_the_future_counts_as_never() -> None:
    """The clock was set back."""
    for entry in sweeps.ENTRIES:
        ahead = NOW + timedelta(days=1)
        assert sweeps.run_due(entry, every=MINUTES, now=ahead) is not None
        assert sweeps.run_due(entry, every=MINUTES, now=NOW) is not None
        assert ClockRun.objects.get(name=entry).last_run_at == NOW
        # another beat's clock is a little behind
        assert sweeps.run_due(entry, every=MINUTES, now=NOW - timedelta(seconds=1)) is None


@pytest.mark.django_db
def test_leases_are_extended_after_the_clock_was_set_back(agent: Agent) -> None:
    sweeps.run("expire_leases", now=NOW + timedelta(days=1))
    make_task(agent)
    claim(agent, now=NOW - MINUTE * 10)
    assert sweeps.run("expire_leases", now=NOW)["extended"] == 1


BREAK = """create function fail_on_write() returns trigger language plpgsql as $$
    begin raise exception 'broken, token=ghp_%s' using detail = 'Key (ref)=(x)'; end $$;
create trigger broken before insert or update on retries_streamcursor
    for each row execute function fail_on_write()"""
REPAIR = "drop trigger broken on retries_streamcursor; drop function fail_on_write()"


@pytest.mark.django_db(transaction=True)
def test_an_entry_that_fails_is_counted_until_it_succeeds() -> None:
    with connection.cursor() as cursor:
        cursor.execute(BREAK.replace("%s", "a1B2" * 9))
    try:
        for minute in range(3):
            with pytest.raises(DatabaseError):
                sweeps.run_due("metrics", every=MINUTES, now=NOW + minute * MINUTE)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(REPAIR)
    failed = ClockRun.objects.get()
    assert (failed.failures, failed.last_success_at) == (3, None)
    assert failed.last_run_at == NOW + 2 * MINUTE
    assert failed.last_error.startswith("ProgrammingError: broken")
    assert "a1B2" not in failed.last_error and "Key" not in failed.last_error
    sweeps.run_due("metrics", every=MINUTES, now=NOW + 3 * MINUTE)
    run = ClockRun.objects.get()
    assert (run.failures, run.last_success_at, run.last_error) == (3, NOW + 3 * MINUTE, "")


@pytest.mark.django_db
def test_an_archive_that_can_not_be_written_is_a_failure(
    agent: Agent, tmp_path: Path, settings: Any
) -> None:
    (tmp_path / "file").write_text("")
    settings.TENFOUR = settings.TENFOUR | {"TASK_DAYS": 1, "ARCHIVE": str(tmp_path / "file" / "x")}
    assert "error" in sweeps.run("retention", now=NOW)
    run = ClockRun.objects.get()
    assert (run.failures, run.last_success_at) == (1, None)
    assert run.last_error.startswith("The archive can't be written")
    settings.TENFOUR = settings.TENFOUR | {"ARCHIVE": "off"}
    sweeps.run("retention", now=NOW + MINUTE)
    run.refresh_from_db()
    assert (run.failures, run.last_success_at, run.last_error) == (1, NOW + MINUTE, "")


def test_an_error_is_redacted_before_it_is_cut() -> None:
    secret = "ghp_" + "a1B2" * 9
    start = "x" * (ClockRun.ERROR_LENGTH - 20)
    assert "ghp_" not in sweeps.shorten_error(f"{start} {secret} more\x00")
    assert len(sweeps.shorten_error("x" * 10_000)) == ClockRun.ERROR_LENGTH
