"""Describe how the last failure compares with earlier ones (pure), by the sets of their errors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from retries.failures.error_sets import ErrorSet, PlacedError
from retries.retry_context.elements import one_line
from retries.retry_context.failure_elements import FailureRecord

SAME = "Attempt {last} failed with the same {errors} as attempt {before}{changes}."
BACK = "The {errors} of attempt {first} came back in attempt {last}; attempt {before} had {others}."
OTHER = "The {errors} of attempt {before} {are} gone; attempt {last} failed with {others}."
PARTLY = "{remain} of the {errors} of attempt {before} {remains} in attempt {last}{parts}."
SUGGESTED = (
    "Attempt {before} suggested: \u201c{text}\u201d. Attempt {last} was told so, and {effect}."
)
FIXED = "A person's fix for attempt {last} was: \u201c{text}\u201d, and {effect}."
TITLES = ("New:", "Still failing, with another message:", "Remaining:", "Gone:")
MOST_PATHS, PATH_LENGTH = 5, 120
# the errors of each list, and the characters of each and of a text that was tried
MOST_LISTED, ERROR_LENGTH, TRIED_LENGTH = 8, 200, 200


@dataclass(frozen=True, slots=True)
class ErrorChanges:
    """The errors of two failures: those that are gone, that remain, and that are new.

    `changed` are tests that fail in both, now with another message.
    """

    gone: list[PlacedError]
    remaining: list[PlacedError]
    changed: list[PlacedError]
    new: list[PlacedError]

    @property
    def are_all_gone(self) -> bool:
        return not (self.remaining or self.changed)


def compare_errors(before: ErrorSet, last: ErrorSet) -> ErrorChanges:
    gone = [each for key, each in before.errors.items() if key not in last.errors]
    new = [each for key, each in last.errors.items() if key not in before.errors]
    tests = {each.place for each in gone if each.is_test}
    changed = [each for each in new if each.is_test and each.place in tests]
    places = {each.place for each in changed}
    return ErrorChanges(
        gone=[each for each in gone if not (each.is_test and each.place in places)],
        remaining=[each for key, each in last.errors.items() if key in before.errors],
        changed=changed,
        new=[each for each in new if each not in changed],
    )


def find_last_two(failures: Sequence[FailureRecord]) -> tuple[FailureRecord, FailureRecord] | None:
    """Return the last failure and the one before it that tells its cause, if both do."""
    told = [each for each in failures if each.errors.keys]
    return (told[-2], told[-1]) if len(told) > 1 and told[-1] is failures[-1] else None


def compare_failures(failures: Sequence[FailureRecord]) -> str:
    """Return the sentence that compares the last failure with the earlier ones, or nothing."""
    # Without two failures that tell their causes there is nothing to compare.
    pair = find_last_two(failures)
    if pair is None:
        return ""
    before, last = pair
    keys = last.errors.keys
    numbers = {"last": last.attempt, "before": before.attempt}
    if keys == before.errors.keys:
        return SAME.format(**numbers, errors=count_errors(keys), changes=describe_changes(last))
    others = "another one" if len(before.errors.keys) == 1 else "others"
    for each in failures:
        if each is not last and keys == each.errors.keys:
            return BACK.format(
                **numbers, errors=count_errors(keys), first=each.attempt, others=others
            )
    changes = compare_errors(before.errors, last.errors)
    errors = count_errors(before.errors.keys)
    if changes.are_all_gone:
        return OTHER.format(
            **numbers,
            errors=errors,
            are="is" if errors == "error" else "are",
            others="another one" if len(keys) == 1 else f"{len(keys)} others",
        )
    remain = len(changes.remaining)
    parts = [
        f"{len(found)} {'is' if len(found) == 1 else 'are'} {what}"
        for found, what in (
            (changes.gone, "gone"),
            (changes.changed, "told with another message"),
            (changes.new, "new"),
        )
        if found
    ]
    total = len(before.errors.keys)
    return PARTLY.format(
        **numbers,
        remain=remain or "None",
        remains="remains" if remain == 1 else "remain",
        errors=f"{total} error{'s' * (total > 1)}",
        parts="; " + ", ".join(parts) if parts else "",
    )


def count_errors(keys: Iterable[str]) -> str:
    count = len(list(keys))
    return "error" if count == 1 else f"{count} errors"


def list_changes(failures: Sequence[FailureRecord], fixes: Mapping[int, str]) -> list[str]:
    """Return lines that name the errors that are gone, remain, and are new, and what was tried."""
    # `fixes` has what people told earlier attempts to do, by the attempt's number. An error is not
    # named if the last failure has the same ones and its details tell them.
    pair = find_last_two(failures)
    if pair is None:
        return []
    before, last = pair
    changes = compare_errors(before.errors, last.errors)
    lines = describe_tried(before, last, changes, fixes)
    if not (changes.gone or changes.new or changes.changed):
        return lines
    then, now = before.errors.failing_tests, last.errors.failing_tests
    if then and now:
        lines.insert(0, f"Failing tests: {then} \u2192 {now}.")
    if len(before.errors.keys) + len(last.errors.keys) > 2:
        earlier = [each for each in failures if each is not before and each is not last]
        new = [describe_new(each, earlier) for each in changes.new]
        others = [
            [str(each) for each in found]
            for found in (changes.changed, changes.remaining, changes.gone)
        ]
        for title, texts in zip(TITLES, (new, *others), strict=True):
            lines += list_errors(title, texts)
    return lines


def list_errors(title: str, texts: Iterable[str]) -> list[str]:
    # The last errors of a long list are left out.
    lines = [f"- {one_line(text, ERROR_LENGTH)}" for text in texts]
    more = [f"- and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
    return [title, *lines[:MOST_LISTED], *more] if lines else []


def describe_new(error: PlacedError, earlier: Sequence[FailureRecord]) -> str:
    # An error that was gone in between names the attempt that had it before.
    for each in reversed(earlier):
        if error.key in each.errors.errors:
            return f"{one_line(str(error), ERROR_LENGTH - 30)} (as in attempt {each.attempt})"
    return str(error)


def describe_tried(
    before: FailureRecord, last: FailureRecord, changes: ErrorChanges, fixes: Mapping[int, str]
) -> list[str]:
    # What was tried matters only if errors remain in spite of it.
    if changes.are_all_gone:
        return []
    count = len(before.errors.keys)
    gone = len(changes.gone)
    effect = "it did not help"
    if gone:
        effect = f"{gone} of {count} errors {'is' if gone == 1 else 'are'} gone"
    numbers = {"before": before.attempt, "last": last.attempt, "effect": effect}
    lines = []
    if (
        fix := one_line(fixes.get(last.attempt, ""), TRIED_LENGTH)
    ) and before.attempt < last.attempt:
        lines.append(FIXED.format(text=fix, **numbers))
    suggested = one_line(before.suggested_fix, TRIED_LENGTH)
    if suggested and before.attempt == last.attempt - 1:
        lines.append(SUGGESTED.format(text=suggested, **numbers))
    return lines


def describe_changes(failure: FailureRecord) -> str:
    # An agent need not say which files it changed.
    paths = [one_line(str(each.get("path") or "?"), PATH_LENGTH) for each in failure.files]
    if not paths:
        return ""
    more = f" and {len(paths) - MOST_PATHS} more" if len(paths) > MOST_PATHS else ""
    return f", although it changed {', '.join(paths[:MOST_PATHS])}{more}"
