"""Describe in one sentence how the last failure compares with earlier ones (pure)."""

from collections.abc import Sequence

from retries.retry_context.elements import one_line
from retries.retry_context.failure_elements import FailureRecord

SAME = "Attempt {last} failed with the same error as attempt {before}{changes}."
BACK = "The error of attempt {first} came back in attempt {last}; attempt {before} had another one."
OTHER = "The error of attempt {before} is gone; attempt {last} failed with another one."
MOST_PATHS, PATH_LENGTH = 5, 120


def compare_failures(failures: Sequence[FailureRecord]) -> str:
    """Return the sentence that compares the last failure with the earlier ones.

    It is empty where there are not two failures, or where one of them does not tell its cause.
    """
    told = [each for each in failures if each.headline]
    if len(told) < 2 or told[-1] is not failures[-1]:
        return ""
    *earlier, before, last = told
    key = last.signature.key
    numbers = {"last": last.attempt, "before": before.attempt}
    if key == before.signature.key:
        return SAME.format(**numbers, changes=describe_changes(last))
    for each in earlier:
        if key == each.signature.key:
            return BACK.format(**numbers, first=each.attempt)
    return OTHER.format(**numbers)


def describe_changes(failure: FailureRecord) -> str:
    """Return which files the attempt changed without effect, if it said so."""
    paths = [one_line(str(each.get("path") or "?"), PATH_LENGTH) for each in failure.files]
    if not paths:
        return ""
    more = f" and {len(paths) - MOST_PATHS} more" if len(paths) > MOST_PATHS else ""
    return f", although it changed {', '.join(paths[:MOST_PATHS])}{more}"
