"""Handle the buttons of an agent: pause, trip, keep open, probe, close, cancel pending."""

from dashboard.actions import build_action_view, by_slug
from retries.verbs import agents

VERBS = by_slug(agents.PAGE)
act = build_action_view(__name__, VERBS, page="agent", returns=True)
