"""List which errors of a failure are gone, remain, and are new in the next one (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass

from retries.failures.error_sets import ErrorSet, PlacedError
from retries.retry_context.comparison import compare_errors

MOST_ERRORS = 50  # the limit for each kind
LINE_LENGTH = 300

SAME, GONE, NEW, OMITTED = " ", "−", "+", "…"
CLASSES = {SAME: "", GONE: "del", NEW: "add", OMITTED: "cut"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    sign: str
    text: str

    @property
    def css(self) -> str:
        return CLASSES[self.sign]


@dataclass(frozen=True, slots=True)
class Diff:
    """The errors of two failures, and how many are gone, changed, new, and the same.

    Changed are tests that fail in both, now with another message. `failing_tests` is their number
    before and after.
    """

    lines: list[DiffLine]
    gone: int
    changed: int
    new: int
    same: int
    failing_tests: tuple[int, int] = (0, 0)

    @property
    def summary(self) -> str:
        """A short description of the difference.

        >>> diff(ErrorSet({"a": PlacedError("", "no a", "a")}), ErrorSet({})).summary
        '1 error gone'
        """
        counts = ((self.gone, "gone"), (self.changed, "changed"), (self.new, "new"))
        parts = [f"{count} {what}" for count, what in (*counts, (self.same, "the same")) if count]
        count, _, what = parts[0].partition(" ") if parts else ("", "", "")
        errors = f"{count} error{'s' * (count != '1')} {what}"
        if not (self.gone or self.changed or self.new):
            errors = f"the same {self.same} errors" if self.same > 1 else "the same error"
        before, after = self.failing_tests
        tests = [f"failing tests {before} → {after}"] if 0 < before != after > 0 else []
        return ", ".join([errors, *parts[1:], *tests])


def diff(before: ErrorSet, after: ErrorSet) -> Diff:
    changes = compare_errors(before, after)
    places = {each.place for each in changes.changed}
    replaced = [each for each in before.errors.values() if each.is_test and each.place in places]
    replaced = [each for each in replaced if each.key not in after.errors]
    lines = [
        *list_errors(SAME, changes.remaining),
        *list_errors(GONE, [*changes.gone, *replaced]),
        *list_errors(NEW, [*changes.changed, *changes.new]),
    ]
    return Diff(
        lines,
        gone=len(changes.gone),
        changed=len(changes.changed),
        new=len(changes.new),
        same=len(changes.remaining),
        failing_tests=(before.failing_tests, after.failing_tests),
    )


def list_errors(sign: str, errors: Sequence[PlacedError]) -> list[DiffLine]:
    lines = [DiffLine(sign, str(each)[:LINE_LENGTH]) for each in errors[:MOST_ERRORS]]
    if left := len(errors) - len(lines):
        lines.append(DiffLine(OMITTED, f"{left} more"))
    return lines
