"""Replay, dismiss or assign one dead letter, or comment on it."""

from dashboard.actions import build_action_view, by_slug
from retries.verbs import dead_letters

VERBS = by_slug((*dead_letters.VERBS, *dead_letters.PEOPLE))
act = build_action_view(__name__, VERBS, page="deadletter")
