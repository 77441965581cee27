"""The buttons of a page: each one's verb, label and question. Each page lists its own."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.http import Http404


@dataclass(frozen=True, slots=True)
class Action:
    """A button: the verb it posts, its label, its key, and the question it asks first."""

    verb: str
    label: str
    key: str = ""
    question: str = ""
    confirm: str = ""  # the label of the button that answers the question
    consequence: str = ""
    icon: str = ""


def find_action(actions: Mapping[str, Action], verb: str) -> Action:
    """Return the action for a verb, or raise Http404."""
    if verb not in actions:
        raise Http404(f"There is no action “{verb}”.")
    return actions[verb]
