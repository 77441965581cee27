"""S0.27 to S0.29: signals acknowledge what expects them."""

import pytest

from ledger import signal_matching
from ledger.errors import Invalid
from ledger.instructions import Expect, send
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Instruction
from ledger.states import InstructionState
from ledger.tokens import TrustedCaller
from tests.factories import NOW, make_agent, pull, state_of

pytestmark = pytest.mark.django_db

OPENSPEC = Expect("fs_command", {"command": "openspec"})


def signal(agent: Agent, type: str = "fs_command", **data: object) -> list[object]:
    return list(
        signal_matching.signal(type, data, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)
    )


def test_the_expected_event_acknowledges_and_its_data_is_kept(agent: Agent) -> None:
    id = send(agent, "Check for OpenSpec CLI", expect=OPENSPEC, stamp=Stamp(SYSTEM))["id"]
    pull(agent)
    assert signal(agent, command="openspec", found=True) == [id]
    row = Instruction.objects.get(pk=id)
    assert row.state == InstructionState.ACKNOWLEDGED and row.acknowledged_by is not None
    assert row.acknowledged_by["data"] == {"command": "openspec", "found": True}
    heard = Event.objects.get(kind="signal.matched")
    assert heard.data["signal"] == row.acknowledged_by["signal"]


SECRET = "hunter2" + "hunter2"


def test_a_secret_in_the_data_is_matched_and_not_stored(agent: Agent) -> None:
    """S3.47: in a value of a telling name, and in a text."""
    expected = Expect("login", {"password": SECRET})
    send(agent, "Sign in", expect=expected, stamp=Stamp(SYSTEM))
    send(agent, "Push", expect=OPENSPEC, stamp=Stamp(SYSTEM))
    assert len(signal(agent, "login", password=SECRET, user="mara")) == 1
    assert len(signal(agent, command="openspec", line=f"openspec --password={SECRET}")) == 1
    masked = [
        {"password": "[redacted:secret]", "user": "mara"},
        {"command": "openspec", "line": "openspec --password=[redacted:secret]"},
    ]
    rows = Instruction.objects.order_by("id").values_list("acknowledged_by", flat=True)
    assert [row["data"] for row in rows if row] == masked
    heard = Event.objects.filter(kind="signal.matched").order_by("id")
    assert [event.data["data"] for event in heard] == masked
    assert SECRET not in str([event.data for event in Event.objects.all()])


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("fs_command", {"command": "git"}),
        ("fs_command", {}),
        ("other", {"command": "openspec"}),
        ("fs_command", {"command": ["openspec"]}),
    ],
)
def test_an_unrelated_event_leaves_no_trace(
    agent: Agent, type: str, data: dict[str, object]
) -> None:
    id = send(agent, "Check", expect=OPENSPEC, stamp=Stamp(SYSTEM))["id"]
    events = Event.objects.count()
    assert signal(agent, type, **data) == []
    assert (state_of(id), Event.objects.count()) == (InstructionState.QUEUED, events)


def test_a_second_identical_event_is_harmless(agent: Agent) -> None:
    """S0.28"""
    send(agent, "Check", expect=OPENSPEC, stamp=Stamp(SYSTEM))
    assert len(signal(agent, command="openspec")) == 1
    assert signal(agent, command="openspec") == []


def test_all_that_expect_it_are_acknowledged_oldest_first(agent: Agent) -> None:
    ids = [
        send(agent, f"Check {n}", expect=OPENSPEC, priority=n == 2, stamp=Stamp(SYSTEM))["id"]
        for n in range(3)
    ]
    pull(agent, limit=1)
    assert signal(agent, command="openspec", line="openspec list") == ids


def test_an_expectation_without_a_match_takes_any_data(agent: Agent) -> None:
    id = send(agent, "Say hello", expect=Expect("hello"), stamp=Stamp(SYSTEM))["id"]
    assert signal(agent, "hello", whatever=1) == [id]


def test_another_agents_signal_does_not_count(agent: Agent) -> None:
    id = send(agent, "Check", expect=OPENSPEC, stamp=Stamp(SYSTEM))["id"]
    assert signal(make_agent("codex"), command="openspec") == []
    assert state_of(id) == InstructionState.QUEUED


def test_what_expects_nothing_is_not_acknowledged_by_a_signal(agent: Agent) -> None:
    id = send(agent, "Check", stamp=Stamp(SYSTEM))["id"]
    signal(agent, command="openspec")
    assert state_of(id) == InstructionState.QUEUED


@pytest.mark.parametrize(
    "expect",
    [
        Expect(""),
        Expect("x" * 65),
        Expect("x", {str(n): n for n in range(9)}),
        Expect("x", {"a": {"b": 1}}),
        Expect("x", {"a": [1]}),
    ],
)
def test_an_expectation_that_can_never_fit_is_refused(agent: Agent, expect: Expect) -> None:
    with pytest.raises(Invalid):
        send(agent, "Check", expect=expect, stamp=Stamp(SYSTEM))


def test_a_plain_instruction_cannot_expect(agent: Agent) -> None:
    with pytest.raises(Invalid, match="plain"):
        send(agent, "Check", expect=OPENSPEC, tracked=False, stamp=Stamp(SYSTEM))
