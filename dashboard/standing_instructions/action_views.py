"""Pause, resume or retire a rule."""

from dashboard.actions import build_action_view, by_slug
from retries.verbs import rules

VERBS = by_slug(rules.VERBS)
act = build_action_view(__name__, VERBS, page="rule", returns=True)
