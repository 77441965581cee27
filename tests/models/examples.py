"""Run state machines: the same short examples in every test run, or as many new ones as asked for.

`MODEL_EXAMPLES=2000 python -m pytest tests/models` tries 2,000 random sequences of each machine,
and shortens the first one that breaks its model, which can take minutes.
"""

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_machine(machine: type[RuleBasedStateMachine], *, examples: int, steps: int) -> None:
    """Run a state machine; raise what the first example raises that breaks its model."""
    asked = int(os.environ.get("MODEL_EXAMPLES", 0))
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=asked or examples,
            stateful_step_count=steps,
            derandomize=not asked,
            phases=[Phase.generate, *([Phase.shrink] if asked else [])],
            database=None,
            deadline=None,
            suppress_health_check=[*HealthCheck],
        ),
    )
