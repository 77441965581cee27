"""Find the templates that are one (pure): those that differ in one or two words.

A template is made from its line alone, so a bare word such as the name of a user stays in it. Only
several templates show that the word varies: three of one shape that differ in that slot.
"""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from retries.failures.fingerprints import MARKS
from retries.failures.masks import CODE

LEAST_FILLERS = 3
MOST_SLOTS = 2
LEAST_CONSTANTS = 2
MOST_WORDS = 60
SLOT = "‹word›"
# what may stand around a filler, as in `(root)` or `[worker],`
FRAME = re.compile(r"([^\w‹:]*)([^:]*?)([^\w›:]*)", re.DOTALL)
LETTERS = re.compile(r"[^\W\d_]{2}")
# A message with another one of these words says something else.
GRAMMAR_WORDS = """
a an the this that these those it its is are was were be been am not no never none nor cannot can
could will would shall should may might must do does did done has have had having to from of on in
into at by for with without within and or but if than then as so too very while when where because
already yet still now again also only all any some each every other another more less most least up
down out off over under above below before after during between via per until since against about
"""
GRAMMAR = frozenset(GRAMMAR_WORDS.split())
VERB = re.compile(r"[A-Za-z]?[a-z]{2,}(?:ed|ing)")
# a state, a level, a method or a code, such as RUNNING, GET or AccessDenied
CONSTANT = re.compile(r"[A-Z][A-Z_]+|(?:[A-Z][a-z0-9]+){2,12}")
# a class of errors, which is a part of the cause
EXCEPTION = re.compile(
    r"(?:[\w$]+[.\\]+)*\w*(?:Error|Exception|Exit|Interrupt|Fault|Failure|Timeout|Warning)"
)


# the words by which other templates differ from one: by their number, by place
Near = dict[int, dict[int, str]]


@dataclass(frozen=True, slots=True)
class Merge:
    """Templates that are one: which of those given, and the template of all of them."""

    numbers: tuple[int, ...]
    template: str


def measure_shape(template: str) -> int:
    """Return a template's number of words, or 0 if it has too many to compare."""
    count = template.count(" ") + 1
    return count if count <= MOST_WORDS else 0


def find_merge(template: str, others: Sequence[str], *, fixed: Iterable[str] = ()) -> Merge | None:
    """Return the templates of the same shape to merge with a template, or None.

    A slot of a general template is filled by any word that varies. The words in `fixed`, such as
    the name of a test, do not vary.

    >>> find_merge("lost link to zoe", ["lost link to ada", "lost way to zoe", "lost link to joe"])
    Merge(numbers=(0, 2), template='lost link to ‹word›')
    """
    words, kept = template.split(" "), {bare(word) for word in fixed}
    plain = [bare(word) for word in words]
    near: Near = {}
    for number, other in enumerate(others):
        if differences := compare(plain, other.split(" ")):
            near[number] = differences
    best: Merge | None = None
    for slots in list_slots(near.values()):
        numbers = find_members(slots, words, near, kept)
        found = [near[number] for number in numbers]
        is_slot = (count_fillers(at, plain[at], found) >= LEAST_FILLERS for at in slots)
        if len(numbers) > (len(best.numbers) if best else 0) and all(is_slot):
            best = Merge(tuple(numbers), fill_slots(words, slots))
    return best


def find_members(
    slots: Sequence[int], words: Sequence[str], near: Near, kept: Container[str]
) -> list[int]:
    """Return the near templates that differ in these slots alone, by words that may vary."""
    if not has_constants(words, slots) or ends_with_cause(words, slots):
        return []
    general = {at for at in slots for found in near.values() if SLOT in found.get(at, "")}
    frames = {at: split_frame(words[at]) for at in slots}
    for at, (_, core, _) in frames.items():
        if not (fits if at in general else varies)(core, kept):
            return []
    return [
        number
        for number, found in near.items()
        if found.keys() <= set(slots)
        and all(may_fill(word, frames[at], kept) for at, word in found.items())
    ]


def bare(word: str) -> str:
    return MARKS.sub("‹›", word).casefold().rstrip(".")


def compare(plain: list[str], others: list[str]) -> dict[int, str]:
    found = {}
    for at, (word, other) in enumerate(zip(plain, others, strict=True)):
        if word != bare(other) or SLOT in other:
            found[at] = other
            if len(found) > MOST_SLOTS:
                return {}
    return found


def list_slots(differences: Iterable[dict[int, str]]) -> list[tuple[int, ...]]:
    # Single places come before pairs.
    found = {tuple(sorted(each)) for each in differences}
    alone = sorted({at for each in found if len(each) == 1 for at in each})
    return sorted(
        found | set(combinations(alone, MOST_SLOTS)), key=lambda slots: (len(slots), slots)
    )


def has_constants(words: Sequence[str], slots: Container[int]) -> bool:
    staying = [
        word
        for at, word in enumerate(map(bare, words))
        if at not in slots and word not in GRAMMAR and LETTERS.search(word.replace("‹›", ""))
    ]
    return len(staying) >= LEAST_CONSTANTS


def ends_with_cause(words: Sequence[str], slots: Container[int]) -> bool:
    # What ends a message behind a colon is the cause: `backup: disk full` and `backup: disk gone`
    # have two causes.
    last = len(words) - 1
    return last in slots and any(word.endswith(":") for word in words[:-1])


def split_frame(word: str) -> tuple[str, str, str]:
    """Return what stands before a word's core, the core, and what stands after it."""
    if match := FRAME.fullmatch(word):
        return match[1], match[2], match[3]
    return "", "", ""


def varies(core: str, fixed: Container[str]) -> bool:
    return fits(core, fixed) and not VERB.fullmatch(core) and not CONSTANT.fullmatch(core)


def fits(core: str, fixed: Container[str]) -> bool:
    plain = core.casefold()
    is_cause = EXCEPTION.fullmatch(core) or CODE.fullmatch(core)
    return bool(core) and plain not in GRAMMAR and plain not in fixed and not is_cause


def may_fill(word: str, frame: tuple[str, str, str], fixed: Container[str]) -> bool:
    before, core, after = split_frame(word)
    return (before, after) == (frame[0], frame[2]) and varies(core, fixed)


def count_fillers(at: int, plain: str, differences: Iterable[dict[int, str]]) -> int:
    # A slot of a general template has enough fillers.
    found = {plain}
    for each in differences:
        if SLOT in each.get(at, ""):
            return LEAST_FILLERS
        found.add(bare(each.get(at, plain)))
    return len(found)


def fill_slots(words: Sequence[str], slots: Iterable[int]) -> str:
    found = list(words)
    for at in slots:
        before, _, after = split_frame(found[at])
        found[at] = f"{before}{SLOT}{after}"
    return " ".join(found)


class TemplateTable:
    """A shared table in memory that learns which templates are one.

    >>> table = TemplateTable()
    >>> for name in ("ada", "joe", "mara", "zoe"):
    ...     table.add(f"lost link to {name}")
    >>> table.find("lost link to ada"), table.find("lost link to zoe")
    ('lost link to ‹word›', 'lost link to ‹word›')
    """

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.by_shape: dict[int, list[str]] = {}

    def add(self, template: str) -> None:
        if template in self.known:
            return
        self.known[template] = template
        shape = measure_shape(template)
        if not shape:
            return
        peers = self.by_shape.setdefault(shape, [])
        if merge := find_merge(template, peers):
            for merged in [peers[number] for number in merge.numbers]:
                peers.remove(merged)
                self.known[merged] = merge.template
            self.known[template] = self.known[merge.template] = merge.template
            template = merge.template
        peers.append(template)

    def find(self, template: str) -> str:
        while (found := self.known.get(template, template)) != template:
            template = found
        return template
