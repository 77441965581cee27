"""Standing instructions are sent by signals, once per what their rule says."""

import time
from typing import Any
from uuid import uuid4

import pytest

from ledger.errors import Invalid
from ledger.instructions import Expect
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Instruction
from ledger.signal_matching import SignalResult, report_signal
from ledger.standing_instructions.editing import (
    On,
    pause_rules,
    resume_rules,
    retire_rules,
    spec_of,
    update_rule,
)
from ledger.tokens import TrustedCaller
from tests.factories import NOW, make_agent, make_project, pull
from tests.ledger.standing_instructions.rules import make_rule, on_write

pytestmark = pytest.mark.django_db


def report(agent: Agent, type: str = "fs_write", session: str = "", **data: Any) -> SignalResult:
    return report_signal(
        type, data, caller=TrustedCaller(SYSTEM, agent=agent), session=session, now=NOW
    )


def test_a_signal_sends_the_rules_instruction(agent: Agent) -> None:
    rule = make_rule(hold_stop=True)
    [id] = report(agent, path="src/a.py", tool="Edit").sent
    row = Instruction.objects.get(pk=id)
    assert (row.rule, row.content, row.tracked, row.holds) == (rule, rule.content, True, 0)
    assert (row.expect_type, row.expect_match) == ("fs_command", {"line": "make test"})
    assert (row.max_retries, row.on_failed, row.sent_by_type) == (3, "escalate", "rule")
    assert row.trigger == {
        "event": "signal",
        "type": "fs_write",
        "path": "src/a.py",
        "tool": "Edit",
    }
    queued = Event.objects.get(kind="instruction.queued", subject_id=id)
    assert queued.data == {"rule": str(rule.id), "trigger": row.trigger}
    assert queued.to_state == "queued" and queued.agent_id == agent.id
    assert pull(agent) == [rule.content]
    assert report(agent, "fs_command", line="make test").acknowledged == [id]


def test_an_open_instruction_keeps_the_rule_from_piling_up(agent: Agent) -> None:
    make_rule()
    [first] = report(agent, path="src/a.py").sent
    assert report(agent, path="src/b.py").sent == []
    pull(agent)
    assert report(agent, path="src/c.py").sent == []
    report(agent, "fs_command", line="make test")
    [again] = report(agent, path="src/c.py").sent
    assert again != first


@pytest.mark.parametrize(
    "data",
    [
        {"path": "tests/a.py"},
        {"path": "src"},
        {"path": "../src/a.py"},
        {"path": "/elsewhere/src/a.py"},
        {"path": "/elsewhere/src/a.py", "cwd": "/srv/app"},
        {"path": 5},
        {"path": None},
        {"path": ["src/a.py"]},
        {"path": "x" * 5000},
        {},
    ],
)
def test_another_path_sends_nothing(agent: Agent, data: dict[str, Any]) -> None:
    make_rule()
    assert report(agent, **data).sent == []
    assert not Instruction.objects.exists()


@pytest.mark.parametrize(
    "data",
    [
        {"path": "src/a.py"},
        {"path": "./src/deep/er/a.py"},
        {"path": "tests/../src/a.py"},
        {"path": "src\\win\\a.py"},
        {"path": "/srv/app/src/a.py", "cwd": "/srv/app"},
        {"path": "C:\\app\\src\\a.py", "cwd": "c:\\app"},
        {"path": "src/[id] {x} (y)+$.py"},
    ],
)
def test_a_path_inside_the_project_is_compared_in_one_form(
    agent: Agent, data: dict[str, Any]
) -> None:
    make_rule()
    assert len(report(agent, **data).sent) == 1


def test_an_expected_path_is_compared_in_the_same_form(agent: Agent) -> None:
    make_rule("Add a changelog entry", expect=Expect("fs_write", {"path": "CHANGELOG.md"}))
    [id] = report(agent, path="src/a.py").sent
    done = report(agent, path="/srv/app/CHANGELOG.md", cwd="/srv/app")
    assert done.acknowledged == [id]
    row = Instruction.objects.get(pk=id)
    assert row.acknowledged_by is not None
    assert row.acknowledged_by["data"]["path"] == "/srv/app/CHANGELOG.md"


def test_what_a_rule_expects_does_not_trigger_it(agent: Agent) -> None:
    make_rule("Log it", on=on_write({}), expect=Expect("fs_write", {"path": "CHANGELOG.md"}))
    [id] = report(agent, path="a.py").sent
    assert report(agent, path="CHANGELOG.md") == SignalResult([id], [])


def test_exact_values_all_have_to_be_there(agent: Agent) -> None:
    make_rule(on=on_write({"path": {"glob": "**"}, "tool": "Edit", "lines": 3}))
    assert report(agent, path="a", tool="Write", lines=3).sent == []
    assert report(agent, path="a", tool="Edit").sent == []
    assert len(report(agent, path="a", tool="Edit", lines=3, more=1).sent) == 1


def test_a_rule_of_one_agent_or_another_project_is_not_for_all(agent: Agent) -> None:
    other = make_agent("codex")
    make_rule(agent=other)
    make_rule("Elsewhere", project=make_project("elsewhere"))
    assert report(agent, path="src/a.py").sent == []
    assert len(report(other, path="src/a.py").sent) == 1


def test_a_paused_rule_a_draft_and_a_retired_rule_send_nothing(agent: Agent) -> None:
    rule, draft = make_rule(), make_rule("Later", paused=True)
    pause_rules([rule.id], stamp=Stamp(SYSTEM, NOW))
    assert draft.state == "draft" and report(agent, path="src/a.py").sent == []
    resume_rules([rule.id, draft.id], stamp=Stamp(SYSTEM, NOW))
    assert len(report(agent, path="src/a.py").sent) == 2
    retire_rules([rule.id, draft.id], stamp=Stamp(SYSTEM, NOW))
    assert resume_rules([rule.id], stamp=Stamp(SYSTEM, NOW)) == []
    pull(agent)
    report(agent, "fs_command", line="make test")
    assert report(agent, path="src/a.py").sent == []


@pytest.mark.parametrize(("once_per", "again"), [("trigger", 1), ("session", 0), ("day", 0)])
def test_once_per(agent: Agent, once_per: str, again: int) -> None:
    make_rule(once_per=once_per)
    assert len(report(agent, session="one", path="src/a.py").sent) == 1
    report(agent, "fs_command", line="make test")
    assert len(report(agent, session="one", path="src/a.py").sent) == again
    report(agent, "fs_command", line="make test")
    other_session = report(agent, session="two", path="src/a.py").sent
    assert len(other_session) == (0 if once_per == "day" else 1)
    assert len(report(make_agent("codex"), session="one", path="src/a.py").sent) == 1


def test_session_start_is_a_signal_of_that_type(agent: Agent) -> None:
    make_rule("Check your branch", on=On(event="session_start"), once_per="session", expect=None)
    [id] = report(agent, "session_start", session="one", source="startup").sent
    assert Instruction.objects.get(pk=id).once_key == "session:one"
    assert report(agent, "session_start", session="one", source="resume").sent == []


def test_a_changed_rule_sends_its_new_text(agent: Agent) -> None:
    rule = make_rule()
    spec = spec_of(rule)
    changed = update_rule(
        rule.id,
        type(spec)(on=spec.on, content="Run them all", expect=None, hold_stop=True),
        project_id=rule.project_id,
        version=1,
        stamp=Stamp(SYSTEM, NOW),
    )
    assert changed.version == 2
    [id] = report(agent, path="src/a.py").sent
    row = Instruction.objects.get(pk=id)
    assert (row.content, row.expect_type, row.holds) == ("Run them all", None, 0)
    event = Event.objects.get(kind="standing_instruction.updated")
    assert event.data == {"changed": ["content", "expect_match", "expect_type", "hold_stop"]}
    assert (event.subject_type, event.subject_id) == ("rule", rule.id)


def test_a_signal_that_names_a_foreign_attempt_belongs_to_none(agent: Agent) -> None:
    make_rule(once_per="attempt")
    caller = TrustedCaller(SYSTEM, agent=agent)
    data = {"path": "src/a.py"}
    sent = report_signal("fs_write", data, caller=caller, attempt=uuid4(), now=NOW).sent
    row = Instruction.objects.get(pk=sent[0])
    assert (row.task_id, row.once_key) == (None, None)


def test_secrets_do_not_reach_the_trigger(agent: Agent) -> None:
    make_rule(on=On(event="signal", type="fs_command"), expect=None)
    secret = "ghp_" + "a1B2" * 9
    report(agent, "fs_command", line=f"git push https://x:{secret}@host/r", command="git")
    trigger = Instruction.objects.get().trigger
    assert trigger is not None and secret not in str(trigger) and "redacted" in trigger["line"]


@pytest.mark.parametrize(
    ("match", "pointer"),
    [
        ({"path": {"glob": "/src/**"}}, "/on/match/path/glob"),
        ({"path": {"glob": "src/../x"}}, "/on/match/path/glob"),
        ({"path": {"glob": "src//x"}}, "/on/match/path/glob"),
        ({"path": {"glob": "src/**x"}}, "/on/match/path/glob"),
        ({"path": {"glob": "a[bc]"}}, "/on/match/path/glob"),
        ({"path": {"glob": "{a,b}"}}, "/on/match/path/glob"),
        ({"path": {"glob": "src\\**"}}, "/on/match/path/glob"),
        ({"path": {"glob": ""}}, "/on/match/path/glob"),
        ({"path": {"glob": "a" * 201}}, "/on/match/path/glob"),
        ({"path": {"glob": "a/" * 40 + "b"}}, "/on/match/path/glob"),
        ({"path": {"glob": "*a" * 17}}, "/on/match/path/glob"),
        ({"path": {"glob": 5}}, "/on/match/path/glob"),
        ({"path": {"regex": ".*"}}, "/on/match/path"),
        ({"line": {"glob": "make *"}}, "/on/match/line"),
        ({"files": ["a"]}, "/on/match/files"),
        ({"x": "y" * 1001}, "/on/match/x"),
        ({str(n): n for n in range(9)}, "/on/match"),
    ],
)
def test_a_match_that_could_never_hold_is_refused(
    agent: Agent, match: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(Invalid) as refused:
        make_rule(on=on_write(match))
    assert refused.value.more["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("src/**/test_?.py", "src/test_a.py", True),
        ("src/**/test_?.py", "src/x/y/test_a.py", True),
        ("src/**/test_?.py", "src/x/test_ab.py", False),
        ("**", "anything/at/all", True),
        ("openapi.json", "openapi.json", True),
        ("openapi.json", "openapi_json", False),
        ("a+b(c).py", "a+b(c).py", True),
        ("docs/**", "docs/é/ü 😀.md", True),
        ("é😀/*", "é😀/x", True),
        ("src/**", "src/line\nbreak", True),
    ],
)
def test_a_glob(agent: Agent, glob: str, path: str, fits: bool) -> None:
    make_rule(on=on_write({"path": {"glob": glob}}))
    assert bool(report(agent, path=path).sent) == fits


@pytest.mark.parametrize(
    "glob",
    [
        "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
        "**/a/**/a/**/a/**/a/**/a/**/b",
        "*a????????????",
        "**/**/**/**/**/**/**/x",
    ],
)
def test_a_hostile_glob_takes_no_time(agent: Agent, glob: str) -> None:
    make_rule(on=on_write({"path": {"glob": glob}}), expect=None)
    path = ("a/" if "/" in glob else "aa") * 2000 + "/!"
    started = time.perf_counter()
    assert report(agent, path=path).sent == []
    assert time.perf_counter() - started < 20  # with backtracking it would take years
