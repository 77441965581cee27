"""Badges of states and urgencies."""

from dashboard.wording import badges
from ledger.states import LEVELS, InstructionState


def test_every_state_and_urgency_has_its_own_icon() -> None:
    states = [badges.state_badge(state) for state in InstructionState]
    urgencies = [badges.urgency_badge(level) for level in range(len(LEVELS) + 2)]
    assert len({badge.icon for badge in states}) == len(states)
    assert len({badge.icon for badge in urgencies}) == len(LEVELS)
    assert badges.urgency_badge(3, gave_up=True).icon == "u-3"
