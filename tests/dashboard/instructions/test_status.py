"""The status texts of instructions."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.instructions.forecast import Forecast
from dashboard.instructions.status import describe_status
from dashboard.wording.status_text import StatusText
from ledger.models import Instruction
from ledger.states import InstructionState

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def row(state: str, **more: object) -> Instruction:
    return Instruction(
        state=state, **{"queued_at": ago(60), "deliveries": 1, "tracked": True, **more}
    )


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (row(InstructionState.ACKNOWLEDGED, acknowledged_at=ago(58.2)), "1.8 s"),
        (
            row(InstructionState.ACKNOWLEDGED, acknowledged_at=ago(40), outcome="declined"),
            "declined, 20 s",
        ),
        (row(InstructionState.FAILED, retry_count=3), "after 3 retries"),
        (
            row(InstructionState.FAILED, retry_count=1, late_ack_at=NOW),
            "after 1 retry, answered too late",
        ),
        (row(InstructionState.CANCELLED), "withdrawn"),
        (row(InstructionState.QUEUED), "2 ahead of it"),
        (row(InstructionState.DELIVERED, tracked=False), "no answer expected"),
    ],
)
def test_status_text(instruction: Instruction, text: str) -> None:
    assert describe_status(instruction, ahead=2, forecast=None, now=NOW).text == text


def test_status_text_while_an_answer_is_pending() -> None:
    def status(**more: object) -> StatusText:
        given = Forecast(**{"gives_up": False, "at": NOW + timedelta(seconds=26), **more})
        return describe_status(row(InstructionState.DELIVERED), ahead=0, forecast=given, now=NOW)

    assert (status().text, status().countdown, status().tone) == ("again in", 26, "amber")
    assert (status(gives_up=True).text, status(gives_up=True).tone) == ("gives up in", "red")
    assert status(at=None, queue_busy=True).text == "again once its queue is empty"
    assert status(at=None).text == "again when the clock runs"


def test_bar_of_a_duration_fits_its_column() -> None:
    def bar(seconds: float) -> float | None:
        done = row(
            InstructionState.ACKNOWLEDGED, acknowledged_at=ago(60) + timedelta(seconds=seconds)
        )
        return describe_status(done, ahead=0, forecast=None, now=NOW).bar

    assert [bar(-1), bar(0), bar(1), bar(72), bar(1e6)] == [1, 1, 8.5, 52.8, 64]
