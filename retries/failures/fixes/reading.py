"""Count how often fixes worked, by the signature of the failure that they were for.

A fix is for the signature of the task's last failure before a person gave it. The result that
counts is that of the first attempt after it that was not released or aborted: the fix worked if the
task was done, or if the attempt failed with another signature. Attempts that Tenfour told of a fix
count for it too, and so do the results that `past_failures` keeps of deleted tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Failure
from ledger.secrets.redaction import had_secret
from ledger.states import Outcome
from retries.failures.fixes.statements import CURED, EVIDENCE, OF_FAILURES, OF_PATTERNS, SIGNATURES
from retries.failures.signatures import VERSION
from retries.models import FixVerdict
from retries.states import Verdict

LEAST_WORKED = 3  # times that a fix must have worked to be advice
MOST_MISSES = 3  # tries in a row without success after which a fix is retired
KEY_LENGTH = 16


class FixState(StrEnum):
    """The use of a fix for failures of its signature."""

    # a person promoted it: it is advice whatever its counts
    PROMOTED = "promoted"
    # it worked often enough, and at least as often as plain retries
    ADVICE = "advice"
    # it is offered to people, with its counts
    TRIED = "tried"
    # a person retired it, or its last tries failed: it is not offered or told
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Tries:
    """The number of attempts, and how many of them worked.

    >>> str(Tries(5, 6))
    '5 of 6'
    """

    worked: int = 0
    tried: int = 0

    def __str__(self) -> str:
        return f"{self.worked} of {self.tried}"

    @property
    def share(self) -> float:
        return self.worked / self.tried if self.tried else 0.0


@dataclass(frozen=True, slots=True)
class Try:
    """The result of an attempt that was given a fix."""

    at: datetime
    has_worked: bool
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedFix:
    """A fix for the failures of one signature: its tries, oldest first, and a person's verdict.

    `plain` are the plain retries of the pattern: the attempts that were given no fix.
    """

    pattern_id: UUID
    signature: str
    entities: tuple[str, ...]
    fix: str
    key: str
    tries: tuple[Try, ...]
    last_at: datetime
    last_by: str
    plain: Tries = Tries()
    verdict: FixVerdict | None = None

    def __str__(self) -> str:
        return f"worked {self.counts}"

    @property
    def counts(self) -> Tries:
        return Tries(sum(each.has_worked for each in self.tries), len(self.tries))

    @property
    def done(self) -> Tries:
        # A cured error may be followed by another, so only tasks that were done count.
        return Tries(sum(each.is_done for each in self.tries), len(self.tries))

    @property
    def evidence(self) -> str:
        done = f", task done {self.done}" if self.done != self.counts else ""
        plain = f", plain retries {self.plain}" if self.plain.tried else ""
        return f"{self}{done}{plain}"

    @property
    def is_identified(self) -> bool:
        # Failures that do not name their cause may have different causes.
        return bool(self.entities) and self.signature.startswith(VERSION)

    @property
    def has_stopped_working(self) -> bool:
        # After a promotion, only later tries count.
        since = self.verdict.at if self.verdict else None
        last = [each for each in self.tries if since is None or each.at > since][-MOST_MISSES:]
        return len(last) == MOST_MISSES and not any(each.has_worked for each in last)

    @property
    def state(self) -> FixState:
        if self.is_retired_by_person or self.has_stopped_working:
            return FixState.RETIRED
        if self.verdict:
            return FixState.PROMOTED
        is_proven = self.counts.worked >= LEAST_WORKED and self.counts.share >= self.plain.share
        return FixState.ADVICE if is_proven and self.is_identified else FixState.TRIED

    @property
    def is_advice(self) -> bool:
        return self.is_identified and self.state in (FixState.PROMOTED, FixState.ADVICE)

    @property
    def is_retired_by_person(self) -> bool:
        return self.verdict is not None and self.verdict.verdict == Verdict.RETIRED


def normalize_fix(fix: str) -> str:
    """Return the text that fixes share if they differ only in case or spacing."""
    return " ".join(fix.split()).casefold()


def key_of(fix: str) -> str:
    return sha256(normalize_fix(fix).encode()).hexdigest()[:KEY_LENGTH]


def fetch_outcomes(pattern_ids: Iterable[UUID]) -> list[Row]:
    ids = list(pattern_ids)
    return list_learnable(sql.run(OF_PATTERNS, patterns=ids)) if ids else []


def list_learnable(rows: Iterable[Row]) -> list[Row]:
    # Other tasks may be told only fixes without a secret.
    return [row for row in rows if not had_secret(row["fix"])]


# ---- learned fixes

Signed = tuple[UUID, str]  # a pattern and a signature
Key = tuple[UUID, str, str]  # with the key of a fix


def list_learned_fixes(
    pattern_id: UUID, *, outcomes: Iterable[Row] | None = None
) -> list[LearnedFix]:
    """Return people's fixes for a pattern by signature, the most reliable first.

    Pass their `outcomes` if they are already read.
    """
    rows = fetch_outcomes([pattern_id]) if outcomes is None else outcomes
    return sorted(learn(rows).values(), key=reliability, reverse=True)


def find_learned_fixes(failure_ids: Iterable[UUID]) -> dict[Signed, list[LearnedFix]]:
    """Return the fixes for the failures' signatures, the most reliable first."""
    ids = list(failure_ids)
    found: dict[Signed, list[LearnedFix]] = {}
    for each in learn(list_learnable(sql.run(OF_FAILURES, failures=ids)) if ids else []).values():
        found.setdefault((each.pattern_id, each.signature), []).append(each)
    return {key: sorted(each, key=reliability, reverse=True) for key, each in found.items()}


def pick_learned(failure: Failure, learned: Mapping[Signed, list[LearnedFix]]) -> list[LearnedFix]:
    # The failure is read with `grouped`.
    grouped = getattr(failure, "grouped", None)
    return learned.get((grouped.pattern_id, grouped.signature), []) if grouped else []


def find_advice(failure_ids: Iterable[UUID]) -> dict[UUID, LearnedFix]:
    """Return the fix for the next attempt's context, by the failure that it would follow."""
    # This takes one query if no fix was given for these failures' signatures.
    ids = list(failure_ids)
    advice = {key: fixes[0] for key, fixes in find_learned_fixes(ids).items() if fixes[0].is_advice}
    if not advice:
        return {}
    rows = sql.run(SIGNATURES, failures=ids)
    keys = {row["failure_id"]: (row["pattern_id"], row["signature"]) for row in rows}
    return {id: advice[key] for id, key in keys.items() if key in advice}


def learn(rows: Iterable[Row]) -> dict[Key, LearnedFix]:
    """Return the fixes of these results, with verdicts and the success of retries without a fix."""
    given: dict[Key, list[Row]] = {}
    for row in rows:
        if row["signature"]:
            key = (row["pattern_id"], row["signature"], key_of(row["fix"]))
            given.setdefault(key, []).append(row)
    if not given:
        return {}
    patterns = list({pattern for pattern, _, _ in given})
    signatures = list({signature for _, signature, _ in given})
    told: dict[Key, list[Row]] = {}
    verdicts: dict[Key, FixVerdict] = {}
    # of the newest retries that got no fix from a person or Tenfour
    plain: dict[UUID, Tries] = {}
    for row in sql.run(EVIDENCE, signatures=signatures, patterns=patterns):
        key = (row["pattern_id"], row["signature"], row["fix_key"])
        if row["kind"] == "told":
            told.setdefault(key, []).append(row)
        elif row["kind"] == "verdict":
            verdicts[key] = build_verdict(row)
        else:
            plain[row["pattern_id"]] = Tries(row["worked"], row["tried"])
    return {
        key: LearnedFix(
            pattern_id=key[0],
            signature=key[1],
            entities=tuple(answers[-1]["entities"]),
            fix=answers[-1]["fix"],
            key=key[2],
            tries=list_tries(answers, told.get(key, ())),
            last_at=answers[-1]["closed_at"],
            last_by=answers[-1]["answered_by_name"],
            plain=plain.get(key[0], Tries()),
            verdict=verdicts.get(key),
        )
        for key, answers in given.items()
    }


def build_verdict(row: Row) -> FixVerdict:
    columns = ("id", "pattern_id", "signature", "fix_key", "fix", "note", "at", "by_name")
    return FixVerdict(verdict=row["outcome"], **{name: row[name] for name in columns})


def list_tries(answers: Iterable[Row], told: Iterable[Row]) -> tuple[Try, ...]:
    ended = [(row["ended_at"], row["outcome"]) for row in answers]
    ended += [(row["at"], row["outcome"]) for row in told]
    tries = (Try(at, has_worked(result), result == Outcome.SUCCESS) for at, result in ended)
    return tuple(sorted(tries, key=lambda each: each.at))


def has_worked(result: str) -> bool:
    return result in (Outcome.SUCCESS, CURED)


def reliability(fix: LearnedFix) -> tuple[bool, bool, bool, float, datetime]:
    # Advice comes first, and 5 of 6 ranks above 1 of 1.
    return (
        fix.is_advice,
        fix.state == FixState.PROMOTED,
        fix.state != FixState.RETIRED,
        (fix.counts.worked + 1) / (fix.counts.tried + 2),
        fix.last_at,
    )
