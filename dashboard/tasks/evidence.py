"""The card about what a done task rests on: its check, the tree, and what changed since (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.wording import badges
from dashboard.wording.badges import Badge
from dashboard.wording.formatting import duration
from ledger.models import Attempt, Task
from ledger.states import Outcome, Proof, proof_of

UNKNOWN = {
    "background": "it ran in the background",
    "moved_to_background": "it was moved to the background",
    "interrupted": "it was interrupted",
    "not_reported": "the agent’s program did not report it",
    "hidden": "the rest of its line hid it",
}
SEEN_BY = {
    "client": "read by the program that ran it",
    "hook": "read by the agent’s hook",
    "agent": "the agent’s word; no program read it",
}
HEADINGS = {
    Proof.PROVEN: "Done, proven",
    Proof.STALE: "Done, then files changed",
    Proof.CLAIMED: "Done, claimed only",
    Proof.PERSON: "Done by a person",
}
COMMIT_LENGTH, DIFF_LENGTH = 7, 8


@dataclass(frozen=True, slots=True)
class TreeText:
    """A tree as people read it: the short commit, and what differs from it."""

    commit: str
    changed: str
    diff: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCard:
    """The evidence for a done task; an empty text is not shown."""

    badge: Badge
    css: str
    heading: str
    who: str
    at: datetime | None
    why: str
    command: str
    exit_code: int | None
    is_known: bool
    how: str
    where: tuple[str, str, str]
    tree: TreeText | None
    changed: str
    is_changed: bool
    others: int
    foot: str


def build_evidence(
    task: Task, attempts: Sequence[Attempt], *, accepted: Any
) -> EvidenceCard | None:
    # `accepted` is the answer by which a person accepted the task as done.
    found = proof_of(task.state, task.proof)
    if found is None:
        return None
    proof = Proof(found)
    ended = [each for each in attempts if each.outcome == Outcome.SUCCESS]
    last = ended[-1] if ended else attempts[-1] if attempts else None
    checks = (last.checks or []) if last else []
    declared = declared_command(task.payload)
    check = find_check(checks, declared)
    is_known = check is not None and check["exit_code"] is not None
    tree = (check or {}).get("tree") or (last.tree if last else None)
    return EvidenceCard(
        badge=badges.proof_badge(proof),
        css={Proof.PROVEN: "evi--ok", Proof.PERSON: "evi--person"}.get(proof, "evi--claim"),
        heading=HEADINGS[proof],
        who=describe_who(proof, check, agent=task.agent.name, accepted=accepted),
        at=accepted.closed_at if accepted else task.completed_at,
        why=accepted.note if accepted else "",
        command=(check or {}).get("command") or declared,
        exit_code=check["exit_code"] if check else None,
        is_known=is_known,
        how=describe_end(check),
        where=describe_where(last, check),
        tree=describe_tree(tree),
        changed=describe_changes(proof, check, last),
        is_changed=proof == Proof.STALE,
        others=max(len(checks) - 1, 0),
        foot=describe_foot(task, proof, declared),
    )


def declared_command(payload: Any) -> str:
    verify = payload.get("verify") if isinstance(payload, dict) else None
    return str(verify.get("command") or "") if isinstance(verify, dict) else ""


def find_check(checks: Sequence[dict[str, Any]], declared: str) -> dict[str, Any] | None:
    """Return the last run of the task's check, or else the last check of any kind."""
    wanted = {"", " ".join(declared.split())}
    own = [each for each in checks if " ".join(each["command"].split()) in wanted]
    return next(reversed(own or checks), None)


def describe_who(proof: Proof, check: Any, *, agent: str, accepted: Any) -> str:
    if proof == Proof.PERSON:
        return f"accepted by {accepted.answered_by_name}" if accepted else "accepted by a person"
    if proof == Proof.CLAIMED:
        return f"{agent} says so"
    return "seen by the agent’s hook" if check and check["seen_by"] == "hook" else "checked"


def describe_end(check: dict[str, Any] | None) -> str:
    """Return who read the exit code, or why it is not known."""
    if check is None:
        return "no check was reported"
    if check["exit_code"] is None:
        return UNKNOWN.get(check["unknown"], "")
    return SEEN_BY.get(check["seen_by"], "")


def describe_where(attempt: Attempt | None, check: dict[str, Any] | None) -> tuple[str, str, str]:
    """Return the worker, the folder, and how long the check ran."""
    took = (check or {}).get("duration_s")
    return (
        attempt.worker_id if attempt else "",
        (check or {}).get("cwd") or "",
        duration(took) if took is not None else "",
    )


def describe_tree(tree: dict[str, Any] | None) -> TreeText | None:
    """Return a tree as readable text.

    >>> describe_tree({"commit": "9c1f44ab02", "diff": "e07b" + "0" * 60, "files": 2})
    TreeText(commit='9c1f44a', changed='2 changed files', diff='e07b0000')
    """
    if tree is None:
        return None
    files, diff = tree.get("files"), tree.get("diff")
    changed = "" if diff is None else "changed files"
    if diff is not None and files is not None:
        changed = f"{files} changed file{'' if files == 1 else 's'}"
    return TreeText(str(tree.get("commit"))[:COMMIT_LENGTH], changed, str(diff or "")[:DIFF_LENGTH])


def describe_changes(proof: Proof, check: Any, attempt: Attempt | None) -> str:
    if proof == Proof.STALE:
        return "files: the tree that was left is not the one that was checked"
    if proof == Proof.PROVEN and check and check.get("tree") and attempt and attempt.tree:
        return "nothing: the tree is the one that was checked"
    return ""


def describe_foot(task: Task, proof: Proof, declared: str) -> str:
    if proof != Proof.CLAIMED:
        return ""
    if not declared:
        return "The task declares no check."
    return "Counts as done in its plan, not as proven." if task.plan_id else ""
