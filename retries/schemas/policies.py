"""Schemas of a project's policies for decisions about failures."""

from datetime import datetime

from pydantic import Field

from ledger.access.reasons import VERBS
from ledger.schemas.shapes import Shape, field
from ledger.schemas.shared import In
from ledger.states import EvidenceLevel, FileScope
from retries.journal_readers.stored_values import MOST_KEYS
from retries.states import PolicyScope

SCOPES = "off, plans (tasks of plans), or all"
LEVELS = "record, ask (once, at a hook's Stop), or require (proof, or a person's answer)"
WHAT = {
    "ask_at_once": "ask a person at once where credentials, quota or credit are missing",
    "obey_waits": "wait as long as a rate limit says, at most 15 minutes",
    "ask_on_same_failure": "ask a person if an error comes back and no file has changed",
    "evidence": "what is asked for before a task is done, where neither it nor its plan says so",
    "exclusive_files": "run no two tasks at once that name the same files, whatever their plans; "
    "a plan's own exclusive_files comes first",
}


class PoliciesOut(Shape):
    ask_at_once: PolicyScope = field(f"{WHAT['ask_at_once']}: {SCOPES}", "plans")
    obey_waits: PolicyScope = field(f"{WHAT['obey_waits']}: {SCOPES}", "all")
    ask_on_same_failure: PolicyScope = field(f"{WHAT['ask_on_same_failure']}: {SCOPES}", "off")
    evidence: EvidenceLevel | None = field(
        f"{WHAT['evidence']}: {LEVELS}; null if it is not set, which records reports "
        "and asks at a hook's Stop"
    )
    reason_verbs: list[str] = field(
        "the verbs for which a reason is required", ["task.abort"], source="project.reason_verbs"
    )
    search_keys: list[str] = field(
        "the keys of payloads and results that tasks are searched by",
        ["payload.order"],
        source="project.search_keys",
    )
    search_filled_to: datetime | None = field(
        "older tasks are not yet searched by these keys; null when all are",
        source="project.search_filled_to",
    )
    exclusive_files: FileScope = field(f"{WHAT['exclusive_files']}: {SCOPES}", "off")
    version: int = field("the version, for If-Match", 1)


class PoliciesPatch(
    In, example={"ask_on_same_failure": "plans", "reason": "it would have saved 214 attempts"}
):
    ask_at_once: PolicyScope | None = Field(None, description=SCOPES)
    obey_waits: PolicyScope | None = Field(None, description=SCOPES)
    ask_on_same_failure: PolicyScope | None = Field(None, description=SCOPES)
    evidence: EvidenceLevel | None = Field(None, description=LEVELS)
    reason_verbs: list[str] | None = Field(
        None,
        max_length=len(VERBS),
        description=f"the verbs for which a reason is required, of: {', '.join(VERBS)}",
    )
    search_keys: list[str] | None = Field(
        None,
        max_length=MOST_KEYS,
        description=f"the keys that tasks are searched by, at most {MOST_KEYS}, such as "
        "payload.order or result.customer.id",
    )
    exclusive_files: FileScope | None = Field(None, description=SCOPES)
    reason: str = Field("", max_length=2000, description="why, for the journal")
