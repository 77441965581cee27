"""The evidence for a decision in a failed attempt's texts and in the attempt before it."""

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

from ledger.database import sql
from ledger.database.sql import Row
from ledger.values.text import truncate
from retries.attempts.report_fields import Report
from retries.decisions import NEEDS, Evidence, Policy
from retries.failures import known_errors
from retries.failures.known_errors import Action
from retries.failures.outputs.failing_tests import find_failing_test
from retries.failures.outputs.salience import find_headline
from retries.failures.outputs.waits import find_wait_s
from retries.failures.signatures import sign
from retries.models import RetryPolicy
from retries.states import PolicyScope

LINE_LENGTH = 300
# A wait is searched this many characters before the line of the error, and after its end.
BEFORE, AFTER = 1_000, 2_000
# A failed test of an error message says nothing about the account that runs it.
ASSERTION = re.compile(
    r"\bassert|\bexpect|\bshould (?:be|have)\b|\breceived\b|!==?|\bto ?equal", re.I
)

# The last failure comes with the policies, so that a failing report costs at most one query, and
# none if it concerns neither.
READ = """select p.ask_at_once, p.obey_waits, p.ask_on_same_failure,
    last.number, last.signature, last.files_changed
from (select) one
left join retries_retrypolicy p on p.project_id = %(project)s
left join lateral (
    select a.number, g.signature, g.files_changed
    from ledger_failure f join ledger_attempt a on a.id = f.attempt_id
    join retries_grouped g on g.failure_id = f.id
    where f.task_id = %(task)s order by f.id desc limit 1
) last on true"""
SCOPES = ("ask_at_once", "obey_waits", "ask_on_same_failure")
DEFAULTS = RetryPolicy()


def gather_evidence(row: Row, report: Report, *, now: datetime) -> tuple[Evidence, Policy]:
    texts = texts_of(report)
    evidence = find_evidence(*texts, now=now)
    changes_nothing = row["number"] > 1 and report.sends_files and not report.files_modified
    if evidence is None and not changes_nothing:
        return Evidence(), Policy()
    found = sql.run(READ, project=row["project_id"], task=row["id"])[0]
    policy = read_policy(found, in_plan=row["plan_id"] is not None)
    evidence = evidence or Evidence()
    if changes_nothing and policy.asks_on_same_failure and is_same(found, texts):
        line = evidence.line or cut_line(str(find_headline(*texts)))
        evidence = replace(evidence, line=line, same_as=found["number"])
    return evidence, policy


def texts_of(report: Report) -> tuple[str, str, str]:
    # The output of a verification comes first.
    output = (report.verification or {}).get("output") or ""
    return str(output), report.details, report.message or report.summary


def find_evidence(*texts: str, now: datetime) -> Evidence | None:
    """Return the known error that decides what comes next, with the wait it names, or None."""
    # A quota that names its reset counts as a limit, which the task waits for.
    found = known_errors.find(*texts)
    if found is None or (found.error.name not in NEEDS and found.error.action != Action.WAIT):
        return None
    if ASSERTION.search(found.line) or find_failing_test(*texts):
        return None
    wait_s = None
    is_wait = found.error.action == Action.WAIT
    if is_wait or found.error.name == "quota":
        wait_s = find_wait_s("\n".join(lines_around(found.line, texts)), now=now)
    return Evidence(
        cut_line(found.line), found.error.name, found.error.title, wait_s, is_wait=is_wait
    )


def lines_around(line: str, texts: tuple[str, ...]) -> list[str]:
    found = []
    for text in texts:
        at = text.find(line)
        if at >= 0:
            found.append(text[max(0, at - BEFORE) : at + len(line) + AFTER])
    return found


def cut_line(line: str) -> str:
    return truncate(line.strip(), LINE_LENGTH)


def read_policy(found: Row, *, in_plan: bool) -> Policy:
    scopes = {PolicyScope.ALL, PolicyScope.PLANS} if in_plan else {PolicyScope.ALL}
    on = [(found[name] or getattr(DEFAULTS, name)) in scopes for name in SCOPES]
    return Policy(*on)


def is_same(found: Row, texts: tuple[str, ...]) -> bool:
    """Return whether the last failure has these texts' signature and sent its files."""
    if found["files_changed"] is None or not find_headline(*texts).score:
        return False
    return bool(found["signature"] == sign(*texts).key)


def evidence_fields(evidence: Evidence) -> dict[str, Any]:
    fields = {
        "line": evidence.line,
        "known_error": evidence.known_error,
        "title": evidence.title,
        "wait_s": evidence.wait_s,
        "same_as": evidence.same_as,
    }
    return {name: value for name, value in fields.items() if value not in ("", None)}
