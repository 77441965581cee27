"""Read and change a project's policies for decisions about failures."""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from ledger import journal
from ledger.access import reasons
from ledger.database import sql
from ledger.errors import Invalid, VersionMismatch
from ledger.journal import Kind, Stamp
from ledger.models import Project
from ledger.secrets.notes import clean_message
from ledger.states import EvidenceLevel, FileScope
from ledger.tasks.exclusive_files import change_scope
from retries.journal_readers import stored_values
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
    reason_verbs: Collection[str] | None = None,
    search_keys: Collection[str] | None = None,
    version: int | None = None,
    reason: str = "",
    stamp: Stamp,
) -> RetryPolicy:
    """Switch policies on, off, or to plans; raises VersionMismatch and Invalid.

    `reason_verbs` are the verbs for which people must give a reason, and `search_keys` the keys of
    payloads and results that tasks are searched by, in place of the former ones.
    """
    # The journal says which, who, and why. Nothing is written if nothing changes.
    for name, scope in scopes.items():
        if name not in VALUES:
            raise Invalid(f"/{name}", f"The policies are: {', '.join(VALUES)}.")
        if scope not in VALUES[name]:
            raise Invalid(f"/{name}", f"{name} is one of: {', '.join(VALUES[name])}.")
    for name in reason_verbs or ():
        if name not in reasons.VERBS:
            raise Invalid(
                "/reason_verbs", f"A reason can be required for: {', '.join(reasons.VERBS)}."
            )
    keys = None if search_keys is None else stored_values.clean_keys(search_keys)
    RetryPolicy.objects.get_or_create(project=project)
    rows = RetryPolicy.objects.select_related("project").select_for_update(of=("self",))
    row = rows.get(project=project)
    if version not in (None, row.version):
        raise VersionMismatch(
            f"You read version {version}, but the policies are at version {row.version} now.",
            current=row.version,
        )
    changed: dict[str, Any] = {
        name: scope for name, scope in scopes.items() if getattr(row, name) != scope
    }
    wanted = reason_verbs or ()
    chosen = None if reason_verbs is None else [each for each in reasons.VERBS if each in wanted]
    if chosen is not None and chosen != row.project.reason_verbs:
        Project.objects.filter(pk=project.pk).update(reason_verbs=chosen)
        row.project.reason_verbs = changed["reason_verbs"] = chosen
    if keys is not None and keys != row.project.search_keys:
        stored_values.declare(row.project, keys)
        changed["search_keys"] = keys
    if changed:
        for name in changed.keys() & scopes.keys():
            if name == EXCLUSIVE_FILES:
                # the project has it, as claims read it
                change_scope(project.pk, FileScope(scopes[name]))
                row.project.exclusive_files = scopes[name]
            else:
                setattr(row, name, scopes[name])
        row.version += 1
        row.save()
        record_change(row, changed, reason=reason, stamp=stamp)
    return row


def record_change(
    row: RetryPolicy, changed: Mapping[str, Any], *, reason: str = "", stamp: Stamp
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
