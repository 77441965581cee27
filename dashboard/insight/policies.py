"""Describe what a project's policies would have changed (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TITLES = {
    "ask_at_once": "Ask at once about credentials, quota, and credit",
    "obey_waits": "Wait as long as a rate limit says",
    "ask_on_same_failure": "Ask a person after the same error twice",
}
MEANINGS = {
    "ask_at_once": "A retry fixes none of them.",
    "obey_waits": "At most 15 minutes.",
    "ask_on_same_failure": "When no file changed in between.",
}
SCOPES = {"off": "Off", "plans": "On for tasks of plans", "all": "On for all tasks"}


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy with the changes that it would have made if it had been on for all tasks."""

    project: str
    figures: Mapping[str, Any]
    least: int

    @property
    def title(self) -> str:
        return TITLES[self.figures["name"]]

    @property
    def meaning(self) -> str:
        return MEANINGS[self.figures["name"]]

    @property
    def scope(self) -> str:
        return SCOPES[self.figures["scope"]]

    @property
    def is_on(self) -> bool:
        return bool(self.figures["scope"] != "off")

    @property
    def is_enough(self) -> bool:
        return bool(self.figures["tasks"] >= self.least)


def list_policies(figures: Sequence[tuple[str, Mapping[str, Any]]]) -> list[PolicyRow]:
    return [
        PolicyRow(project, each, data["least"])
        for project, data in figures
        for each in data["policies"]
        if each["name"] in TITLES
    ]
