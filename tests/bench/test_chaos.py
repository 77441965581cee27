"""The attack on a running instance in short form, and whether its check can fail."""

import uuid
from collections.abc import Iterator

import pytest

from bench import chaos
from bench.chaos_faults import KILLS, OTHER, Fault, Instance, fill_disk, mount_small_disk
from bench.chaos_traffic import IS_OVER, NO_ANSWER, Record
from tests.config.local.test_up import data_folder
from tests.services import copy_migrated

# One of each kind; the benchmark repeats the kills and stalls every part.
KILLED = ("web worker", "worker", "beat", "redis", "backend", "postmaster", "everything")
OTHERS = ("stalled worker", "clock set back", "clock set forward")
DISK_MB = 400


@pytest.fixture
def can_fill() -> Iterator[bool]:
    """Whether the instance has a disk of its own, which only root can mount."""
    with mount_small_disk(data_folder("chaos"), DISK_MB) as can_fill:
        yield can_fill


@pytest.fixture
def instance(can_fill: bool, request: pytest.FixtureRequest) -> Instance:
    instance = Instance(data_folder("chaos") / "data")
    copy_migrated(instance.data)
    request.addfinalizer(instance.end)
    instance.start()
    return instance


def choose_faults(_: int, can_fill: bool) -> list[tuple[str, Fault]]:
    chosen = [*((name, KILLS[name]) for name in KILLED), *((name, OTHER[name]) for name in OTHERS)]
    return [*chosen, ("full disk", fill_disk)] if can_fill else chosen


def test_nothing_is_lost_doubled_or_illegal_when_parts_fail_under_load(
    instance: Instance, can_fill: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos, "choose_faults", choose_faults)
    monkeypatch.setattr(chaos, "REST_S", 0.5)
    monkeypatch.setattr(chaos, "AGENTS", 2)
    said: list[str] = []
    figures = chaos.attack(instance, 200, len(KILLED), can_fill=can_fill, say=said.append)
    # Outages depend on the machine's load, so the benchmark alone measures them.
    missed = {each.name for each in figures if each.verdict == "MISSED"}
    assert not {name for name in missed if "outage" not in name}, said

    acknowledged = Record()
    acknowledged.tasks["never sent"] = str(uuid.uuid4())
    acknowledged.claims[str(uuid.uuid4())] = {"one", "another"}
    acknowledged.wrong.append("/v1/tasks: 500")
    [[title]] = instance.query("select title from ledger_task where state = 'done' limit 1")
    instance.query(
        """insert into ledger_task
        select (json_populate_record(t, json_build_object('id', uuidv7()))).*
        from ledger_task t where title = %s""",
        title,
    )
    instance.query(
        """insert into ledger_instruction
        select (json_populate_record(i, json_build_object('id', uuidv7()))).*
        from ledger_instruction i where state = 'acknowledged' limit 1"""
    )
    lost, doubled, illegal = chaos.check(instance, acknowledged)
    assert [len(lost), len(doubled)] == [1, 3] and len(illegal) > 1, (lost, doubled, illegal)


def test_an_answer_that_no_caller_may_get_is_illegal() -> None:
    record = Record()
    for status in ("200", "404", NO_ANSWER):
        record.count(status)
    assert record.answered == 2
    assert record.check("/v1/claims", 200, {}, 200)
    assert record.check("/v1/attempts/1/result", 409, {"code": "lease_lost"}, 200, *IS_OVER)
    assert not record.check("/v1/claims", 0, None, 200)  # the traffic was stopped
    assert record.wrong == []
    assert not record.check("/v1/claims", 404, {"code": "not_found"}, 200)
    assert record.wrong == ["/v1/claims: 404 {'code': 'not_found'}"]
