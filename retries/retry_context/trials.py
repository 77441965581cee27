"""Decide whether a task's retry context lacks an element under experiment (pure)."""

import hashlib
from dataclasses import dataclass
from uuid import UUID

# the variant of a context that no experiment changes
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Trial:
    """The side of an experiment that a task is on."""

    element: str
    is_without: bool

    @property
    def variant(self) -> str:
        """Return the variant that is stored with an attempt, such as `without:known`."""
        return f"{'without' if self.is_without else 'with'}:{self.element}"


def is_without(experiment_id: UUID, task_id: UUID, *, share: int) -> bool:
    # `share` is a percentage. The same task is always on the same side.
    digest = hashlib.sha256(experiment_id.bytes + task_id.bytes).digest()
    tens, ones = divmod(int.from_bytes(digest[:8]) % 100, 10)
    # Backwards, so that experiments that began when all had a tenth keep their sides.
    return 10 * ones + tens < share
