"""Pause a project's tasks of one type: no claim hands them out until the type is resumed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from ledger import journal
from ledger.database import sql
from ledger.errors import Invalid
from ledger.journal import Kind, Stamp
from ledger.models import Project
from ledger.secrets.notes import clean_note, noted
from ledger.tasks.spec import Spec, check

MOST_PAUSED = 100


@dataclass(frozen=True, slots=True)
class TypePause:
    """A paused type: since when, and who paused it and why."""

    type: str
    paused_at: datetime | None = None
    paused_by: str | None = None
    note: str = ""

    @property
    def paused(self) -> bool:
        return self.paused_at is not None

    @classmethod
    def read(cls, type: str, stored: Mapping[str, Any]) -> Self:
        return cls(type, datetime.fromisoformat(stored["at"]), stored["by"], stored["note"])


def list_pauses(project_id: UUID) -> list[TypePause]:
    stored = Project.objects.values_list("paused_types", flat=True).get(pk=project_id)
    return [TypePause.read(*each) for each in sorted((stored or {}).items())]


@sql.atomic
def set_paused(
    type: str, *, paused: bool, project_id: UUID, note: str = "", stamp: Stamp
) -> tuple[TypePause, bool]:
    """Pause or resume a type; return how it is now, and whether that changed.

    Running tasks continue. Raises Invalid.
    """
    check(Spec(type=type), pointer="")
    rows = Project.objects.select_for_update(no_key=True)
    stored = dict(rows.values_list("paused_types", flat=True).get(pk=project_id) or {})
    if paused == (type in stored):
        return TypePause.read(type, stored[type]) if paused else TypePause(type), False
    if paused and len(stored) >= MOST_PAUSED:
        raise Invalid("/paused", f"At most {MOST_PAUSED} types can be paused. Resume another one.")
    if paused:
        by, said = stamp.actor.name, clean_note(note)
        stored[type] = {"at": stamp.at.isoformat(), "by": by, "note": said}
    else:
        del stored[type]
    # null, not an empty object: a claim looks at types only where one is paused
    Project.objects.filter(pk=project_id).update(paused_types=stored or None)
    journal.record(
        Kind.PROJECT_TYPE_PAUSED if paused else Kind.PROJECT_TYPE_RESUMED,
        subject_type="project",
        subject_id=project_id,
        project_id=project_id,
        stamp=stamp,
        data={"type": type} | noted(note),
    )
    return TypePause.read(type, stored[type]) if paused else TypePause(type), True
