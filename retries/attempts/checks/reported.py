"""The checks of an attempt, and the proof in them that its task is done (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ledger.secrets.redaction import redacted, stripped
from ledger.states import Proof
from ledger.values.text import truncate
from ledger.values.timestamps import format_timestamp
from retries.attempts.endings import SeenBy, Unknown

MAX_CHECKS = 20
COMMAND_LENGTH = 4096
FOLDER_LENGTH = 1024

CHECK_FIELDS = frozenset(
    ["command", "cwd", "exit_code", "unknown", "seen_by", "at", "duration_s", "tree"]
)

# stands for the check that Tenfour has proposed; a command line has single spaces here
PROPOSED = "proposed  check"

Check = dict[str, Any]
Tree = dict[str, Any]


def make_check(
    command: str,
    *,
    exit_code: int | None,
    seen_by: SeenBy,
    at: datetime,
    unknown: Unknown | None = None,
    cwd: str = "",
    duration_s: float | None = None,
    tree: Tree | None = None,
) -> Check:
    """Return a check as attempts store it; without an exit code it says why."""
    if exit_code is None and unknown is None:
        unknown = Unknown.NOT_REPORTED
    return {
        "command": command,
        "cwd": cwd,
        "exit_code": exit_code,
        "unknown": str(unknown) if unknown else None,
        "seen_by": str(seen_by),
        "at": format_timestamp(at),
        "duration_s": duration_s,
        "tree": tree,
    }


def clean_checks(checks: Iterable[Check]) -> list[Check]:
    """Return the last checks as they are stored: without secrets, cut to the limits."""
    return [
        check
        | {
            "command": clean_line(str(check["command"]), COMMAND_LENGTH),
            "cwd": clean_line(str(check["cwd"]), FOLDER_LENGTH),
            "tree": check["tree"] if isinstance(check["tree"], dict) else None,
        }
        for check in list(checks)[-MAX_CHECKS:]
    ]


def clean_line(text: str, limit: int) -> str:
    # Redact before cutting: half a secret would not be recognized.
    return truncate(stripped(redacted(text)), limit)


def judge_checks(checks: Sequence[Check], tree: Tree | None) -> dict[str, str]:
    """Return, by exit code and command, the proof for a task whose check is that command.

    Only the last run of a command counts, and only if a program saw it end. The proof is stale if
    the command ran on another tree than the one that was left.

    >>> seen = {"command": "make test", "exit_code": 0, "seen_by": "client", "tree": None}
    >>> judge_checks([seen], None)
    {'0 make test': 'proven'}
    >>> judge_checks([seen | {"exit_code": None}, seen | {"seen_by": "agent"}], None)
    {}
    """
    found: dict[str, str] = {}
    for check in checks:
        is_proposed = check.get("is_proposed")
        command = PROPOSED if is_proposed else " ".join(check["command"].split())
        # a later run replaces what an earlier one has shown
        found = {key: proof for key, proof in found.items() if key.split(" ", 1)[1] != command}
        if check["exit_code"] is not None and check["seen_by"] != SeenBy.AGENT:
            is_stale = check["tree"] and tree and not is_same_tree(check["tree"], tree)
            proof = Proof.STALE if is_stale else Proof.PROVEN
            found[f"{check['exit_code']} {command}"] = str(proof)
    return found


def is_same_tree(tree: Tree, other: Tree) -> bool:
    return all(tree.get(name) == other.get(name) for name in ("commit", "diff"))


def find_proof(verify: Mapping[str, Any], checks: Sequence[Check], tree: Tree | None) -> Proof:
    """Return the proof for a successful task that declares this check.

    A report may leave out the command: the check is then the one that the task declares or, if it
    declares none, the one that Tenfour has proposed.
    """
    command, code = " ".join(str(verify.get("command") or "").split()), verify.get("expect_exit", 0)
    proofs = judge_checks(checks, tree)
    found = proofs.get(f"{code} {command or PROPOSED}")
    return Proof(found or (proofs.get(f"{code} ") if command else None) or Proof.CLAIMED)


# The level of evidence for a task `t`; null where it is not set.
LEVEL_SQL = """coalesce(t.evidence,
    (select p.evidence from ledger_plan p where p.id = t.plan_id),
    (select r.evidence from retries_retrypolicy r where r.project_id = t.project_id))"""
# The same rule in SQL, for a statement that reads no task before it moves `t`.
COMMAND_SQL = (
    r"regexp_replace(btrim(t.payload -> 'verify' ->> 'command', E' \n\t\r'), '\s+', ' ', 'g')"
)
CODE_SQL = "coalesce(t.payload -> 'verify' ->> 'expect_exit', '0')"
PROOF_SQL = f"""coalesce(
    %(proofs)s::jsonb ->> ({CODE_SQL} || ' ' || coalesce(nullif({COMMAND_SQL}, ''), '{PROPOSED}')),
    case when {COMMAND_SQL} <> '' then %(proofs)s::jsonb ->> ({CODE_SQL} || ' ') end,
    '{Proof.CLAIMED}')"""
