"""Schemas of tasks that are made of a session's to-dos."""

from typing import Any

from pydantic import Field, StrictInt

from ledger.errors import Invalid
from ledger.schemas.shared import In
from ledger.sessions.task_links import TITLE_LENGTH, TYPE

LINK = "the ID or the ref of a task that exists; without it, a new task is enqueued"


class SessionTaskLinkIn(In, example={"agent": "coder", "type": "docs"}):
    task: str | None = Field(None, max_length=200, description=LINK)
    agent: str | None = Field(
        None, description="the new task's agent; without it, the session's agent"
    )
    title: str = Field(
        "", max_length=TITLE_LENGTH, description="its title; without one, what the to-do says"
    )
    type: str = Field(TYPE, min_length=1, max_length=64, description="its type")
    priority: StrictInt = Field(0, description="its priority; higher goes first")

    def check(self) -> None:
        """Raise Invalid if a task to link is named together with fields of a new one."""
        if self.task is None:
            return
        given: set[str] = self.model_fields_set - {"task"}
        if given:
            name = sorted(given)[0]
            raise Invalid(f"/{name}", f"'{name}' is for a new task; leave it out to link one.")

    def fields(self) -> dict[str, Any]:
        return {"title": self.title, "type": self.type, "priority": self.priority}
