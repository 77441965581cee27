"""What the API answers, as values that a newer server does not break."""

from datetime import UTC, datetime

from tenfour import Acked, Instruction, Me, Pulled, Stats

ROW = {
    "id": "1",
    "content": "Look",
    "state": "delivered",
    "delivered_at": "2026-10-21T07:28:00.123Z",
    "acknowledged_at": None,
    "colour": "green",
}


def test_unknown_fields_are_kept_aside_and_missing_ones_have_defaults() -> None:
    instruction = Instruction.read(ROW)
    assert instruction.raw["colour"] == "green"
    assert instruction.retry_count == 0 and instruction.acknowledged_at is None


def test_unknown_states_pass() -> None:
    instruction = Instruction.read(ROW | {"state": "parked"})
    assert instruction.state == "parked" and not instruction.is_open


def test_times_are_instants() -> None:
    delivered_at = datetime(2026, 10, 21, 7, 28, 0, 123000, tzinfo=UTC)
    assert Instruction.read(ROW).delivered_at == delivered_at


def test_a_field_named_raw_does_not_take_the_place_of_ours() -> None:
    assert Instruction.read(ROW | {"raw": 1}).raw["raw"] == 1


def test_the_data_of_the_signal_is_at_hand() -> None:
    by_signal = {"signal": "s", "type": "t", "data": {"found": True}}
    assert Instruction.read(ROW | {"acknowledged_by": by_signal}).data == {"found": True}
    assert Instruction.read(ROW | {"acknowledged_by": {"actor": "token"}}).data == {}
    assert Instruction.read(ROW).data == {}


def test_what_was_pulled_can_be_walked_and_counted() -> None:
    pulled = Pulled.read({"data": [ROW, ROW], "retry_after_s": 2})
    assert [each.id for each in pulled] == ["1", "1"] and len(pulled) == 2
    assert pulled.retry_after_s == 2
    assert not Pulled.read({"data": []})


def test_nested_values_are_read_too() -> None:
    assert Acked.read(
        {"id": "1", "status": 200, "instruction": ROW}
    ).instruction == Instruction.read(ROW)
    assert Acked.read({"id": "1", "status": 404, "instruction": None}).instruction is None
    stats = Stats.read({"window_s": 60, "project": {"sent": 3}, "agents": [{"name": "coder"}]})
    assert stats.project.sent == 3 and stats.agents[0].name == "coder"
    me = Me.read({"kind": "agent", "scopes": ["a"], "server_time": "2026-10-21T07:28:00Z"})
    assert me.scopes == ("a",) and me.server_time is not None
