"""The attack on a running instance in short form, and whether its check can fail."""

import uuid

import pytest

from bench import chaos
from bench.chaos_faults import SINGLE, Instance
from bench.chaos_traffic import Record
from tests.config.local.test_up import data_folder

KILLED = ("web worker", "worker", "backend", "postmaster")


@pytest.fixture
def instance(request: pytest.FixtureRequest) -> Instance:
    instance = Instance(data_folder("chaos"))
    request.addfinalizer(instance.end)
    instance.start()
    return instance


def test_nothing_is_lost_doubled_or_illegal_when_parts_are_killed_under_load(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos, "choose_faults", lambda *_: [(k, SINGLE[k]) for k in KILLED])
    monkeypatch.setattr(chaos, "REST_S", 0.5)
    monkeypatch.setattr(chaos, "AGENTS", 2)
    said: list[str] = []
    figures = chaos.attack(instance, 200, len(KILLED), can_fill=False, say=said.append)
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
    lost, doubled, illegal = chaos.check(instance, acknowledged)
    assert [len(lost), len(doubled)] == [1, 2] and len(illegal) > 1, (lost, doubled, illegal)
