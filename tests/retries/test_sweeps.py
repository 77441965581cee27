"""The clock: each entry runs when it is due, once however many beats tick, and by hand."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from ledger.models import Agent, ClockRun
from retries import sweeps
from retries.jobs import run_entry
from tests.factories import MINUTE, NOW, make_agent, make_project, pull, send, state_of
from tests.retries.moves import claim, make_task
from tests.waiting import PATIENCE_S

MINUTES = timedelta(seconds=60)


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
        assert sweeps.take_turn("idle_check", before=NOW, now=NOW)
        assert pool.submit(tick).result(PATIENCE_S) is None


@pytest.mark.django_db
def test_the_job_runs_the_entry(agent: Agent) -> None:
    id = send(agent)
    pull(agent)
    run_entry(name="idle_check", every=0)
    assert state_of(id) == "queued" and ClockRun.objects.get().name == "idle_check"


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
