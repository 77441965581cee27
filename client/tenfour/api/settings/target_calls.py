"""Calls about targets for the times of instructions and tasks; each returns a Call."""

from __future__ import annotations

from typing import Any, Literal

from tenfour.api.calls import given
from tenfour.http.core import Call
from tenfour.record_models import Target

PATH = "/v1/targets"
Measure = Literal["ack", "wait", "run"]


def targets() -> Call[tuple[Target, ...]]:
    """List the project's targets: those of agents by name, and then those of types and plans."""
    return Call("GET", PATH, _targets)


def set(
    measure: Measure,
    *,
    percent: int,
    within_s: int,
    agent: str | None = None,
    type: str | None = None,
    plan: str | None = None,
) -> Call[Target]:
    """Set the target of an agent, a type of tasks, or a plan; needs a person's token.

    One of the same measure is replaced.
    """
    body = _body(measure, agent, type, plan) | {"percent": percent, "within_s": within_s}
    return Call("PUT", PATH, Target.read, body)


def remove(
    measure: Measure, *, agent: str | None = None, type: str | None = None, plan: str | None = None
) -> Call[Target]:
    """Remove the target of an agent, a type, or a plan; also if there is none."""
    return Call("PUT", PATH, Target.read, _body(measure, agent, type, plan))


def _body(
    measure: Measure, agent: str | None, type: str | None, plan: str | None
) -> dict[str, Any]:
    return given({"measure": measure, "agent": agent, "type": type, "plan": plan})


def _targets(answer: Any) -> tuple[Target, ...]:
    return Target.read_all(answer["data"])
