"""Read and change a project's policies for decisions about failures."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ledger import journal
from ledger.database import sql
from ledger.errors import Invalid, VersionMismatch
from ledger.journal import Kind, Stamp
from ledger.models import Project
from ledger.secrets.notes import clean_message
from ledger.states import EvidenceLevel, FileScope
from ledger.tasks.exclusive_files import change_scope
from retries.models import RetryPolicy
from retries.states import PolicyScope

NAMES = ("ask_at_once", "obey_waits", "ask_on_same_failure")
EVIDENCE = "evidence"
EXCLUSIVE_FILES = "exclusive_files"
VALUES = dict.fromkeys(NAMES, PolicyScope.values) | {
    EVIDENCE: EvidenceLevel.values,
    EXCLUSIVE_FILES: FileScope.values,
}
REASON_BYTES = 2000


def read_policies(project_id: UUID) -> RetryPolicy:
    # Without a row, a project has the defaults as its first version.
    found = RetryPolicy.objects.select_related("project").filter(project=project_id).first()
    return found or RetryPolicy(project=Project.objects.get(pk=project_id))


@sql.atomic
def change_policies(
    project: Project,
    scopes: Mapping[str, str],
    *,
    version: int | None = None,
    reason: str = "",
    stamp: Stamp,
) -> RetryPolicy:
    """Switch policies on, off, or to plans; raises VersionMismatch and Invalid."""
    # The journal says which, who, and why. Nothing is written if nothing changes.
    for name, scope in scopes.items():
        if name not in VALUES:
            raise Invalid(f"/{name}", f"The policies are: {', '.join(VALUES)}.")
        if scope not in VALUES[name]:
            raise Invalid(f"/{name}", f"{name} is one of: {', '.join(VALUES[name])}.")
    RetryPolicy.objects.get_or_create(project=project)
    rows = RetryPolicy.objects.select_related("project").select_for_update(of=("self",))
    row = rows.get(project=project)
    if version not in (None, row.version):
        raise VersionMismatch(
            f"You read version {version}, but the policies are at version {row.version} now.",
            current=row.version,
        )
    changed = {name: scope for name, scope in scopes.items() if getattr(row, name) != scope}
    if changed:
        for name, scope in changed.items():
            if name == EXCLUSIVE_FILES:
                # the project has it, as claims read it
                change_scope(project.pk, FileScope(scope))
                row.project.exclusive_files = scope
            else:
                setattr(row, name, scope)
        row.version += 1
        row.save()
        record_change(row, changed, reason=reason, stamp=stamp)
    return row


def record_change(
    row: RetryPolicy, changed: Mapping[str, str], *, reason: str = "", stamp: Stamp
) -> None:
    data: dict[str, Any] = dict(changed)
    if said := clean_message(reason, limit_bytes=REASON_BYTES):
        data["reason"] = said
    journal.record(
        Kind.PROJECT_POLICIES_CHANGED,
        subject_type="project",
        subject_id=row.project_id,
        project_id=row.project_id,
        stamp=stamp,
        data=data,
    )
