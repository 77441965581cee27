"""Replay or dismiss one dead letter."""

from dashboard.actions import build_action_view, by_slug
from retries.verbs import dead_letters

VERBS = by_slug(dead_letters.VERBS)
act = build_action_view(__name__, VERBS, page="deadletter")
