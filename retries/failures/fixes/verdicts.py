"""Promote and retire fixes: a person decides what counts alone would not."""

from typing import Any

from ledger import journal
from ledger.database import sql
from ledger.errors import NotFound
from ledger.journal import Kind, Stamp
from ledger.secrets.notes import clean_note
from retries.failures.fixes import reading as fixes
from retries.failures.fixes.reading import LearnedFix
from retries.models import FailurePattern, FixVerdict
from retries.states import Verdict

KINDS = {
    Verdict.PROMOTED: Kind.PATTERN_FIX_PROMOTED,
    Verdict.RETIRED: Kind.PATTERN_FIX_RETIRED,
    None: Kind.PATTERN_FIX_RESET,
}


def find_fix(pattern: FailurePattern, *, signature: str, key: str) -> LearnedFix:
    for each in fixes.list_learned_fixes(pattern.pk):
        if (each.signature, each.key) == (signature, key):
            return each
    raise NotFound(f"The pattern has no fix {key} for the signature {signature}.")


@sql.atomic
def judge(
    pattern: FailurePattern,
    *,
    signature: str,
    key: str,
    verdict: Verdict | None,
    note: str = "",
    stamp: Stamp,
) -> LearnedFix:
    """Promote or retire a fix for a signature's failures, or clear its verdict.

    A promoted fix is advice at once, until its next tries fail; a retired one is neither offered
    nor told. Raises NotFound if no person gave such a fix.
    """
    found = find_fix(pattern, signature=signature, key=key)
    before = found.verdict.verdict if found.verdict else None
    chosen: dict[str, Any] = {"pattern": pattern, "signature": signature, "fix_key": key}
    note = clean_note(note)
    if verdict is None:
        FixVerdict.objects.filter(**chosen).delete()
    else:
        FixVerdict.objects.update_or_create(
            **chosen,
            defaults={
                "verdict": verdict,
                "fix": found.fix,
                "note": note,
                "at": stamp.at,
                "by_name": stamp.actor.name,
            },
        )
    if verdict is not None or before is not None:
        data = {"fix": found.fix, "signature": signature, "entities": list(found.entities)}
        data |= {"counts": str(found.counts)} | ({"note": note} if note else {})
        journal.record_about("pattern", pattern, KINDS[verdict], stamp=stamp, data=data)
    return find_fix(pattern, signature=signature, key=key)


def list_moves(fix: LearnedFix) -> list[Verdict | None]:
    # None takes the last verdict back.
    now = Verdict(fix.verdict.verdict) if fix.verdict else None
    is_lasting = not (now == Verdict.PROMOTED and fix.has_stopped_working)
    moves: list[Verdict | None] = [each for each in Verdict if each != now or not is_lasting]
    return [*moves, None] if now else moves
