"""Handle the actions on one task: retry now, unblock, skip, abort, assign, comment."""

from dashboard.actions import build_action_view, by_slug
from retries.verbs import tasks

VERBS = by_slug((*tasks.PAGE, *tasks.PEOPLE))
act = build_action_view(__name__, VERBS, page="task")
