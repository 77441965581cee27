"""Decide whether a task's retry context lacks an element under experiment (pure)."""

import hashlib
from dataclasses import dataclass
from uuid import UUID

# One task in so many gets its context without the element.
ONE_IN = 10
# the variant of a context that no experiment changes
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Trial:
    """The side of an experiment that a task is on."""

    element: str
    is_without: bool

    @property
    def variant(self) -> str:
        """The variant that is stored with an attempt, such as `without:known`."""
        return f"{'without' if self.is_without else 'with'}:{self.element}"


def is_without(experiment_id: UUID, task_id: UUID) -> bool:
    """Return whether a task is one of the tenth that an experiment leaves its element out for.

    The same task is always on the same side.
    """
    digest = hashlib.sha256(experiment_id.bytes + task_id.bytes).digest()
    return int.from_bytes(digest[:8]) % ONE_IN == 0
