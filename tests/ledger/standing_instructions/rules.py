"""Create rules for tests."""

from typing import Any

from ledger.instructions import Expect
from ledger.journal import SYSTEM, Stamp
from ledger.models import Project, StandingInstruction
from ledger.standing_instructions.editing import On, RuleSpec, create_rule
from tests.factories import NOW, make_project

SOURCES = {"path": {"glob": "src/**"}}
TESTS = Expect("fs_command", {"line": "make test"})


def on_write(match: dict[str, Any] | None = None) -> On:
    return On(event="signal", type="fs_write", match=SOURCES if match is None else match)


def make_rule(
    content: str = "Run the tests after changing code.",
    *,
    on: On | None = None,
    project: Project | None = None,
    paused: bool = False,
    **more: Any,
) -> StandingInstruction:
    more.setdefault("expect", TESTS)
    spec = RuleSpec(on=on or on_write(), content=content, **more)
    return create_rule(
        spec, project=project or make_project(), paused=paused, stamp=Stamp(SYSTEM, NOW)
    )
