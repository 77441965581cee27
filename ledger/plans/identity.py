"""Recognize the tasks of a changed plan file among the stored ones, by meaning (pure).

A task is the same if its id is the same, else if its text is the same, else if it is the nearest
text above a similarity that `bench plans` measures. Its place says nothing about what it is.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.errors import Invalid, Refusal
from ledger.plans.similarity import CERTAIN, NEAR, POSSIBLE, similarity

MOST_LISTED = 20
NEW = "new"


class PlanAmbiguous(Refusal):
    """The merge can't tell which task is which"""

    code = "plan_ambiguous"
    hint = (
        "Nothing was changed. Name the pairs: 'pairs=task-2=task-1' says that the file's task-2 is "
        "the stored task-1, 'pairs=task-2=new' that it is another task, and 'pairs=new' that all "
        "of them are."
    )


# ---- the two sides


@dataclass(frozen=True, slots=True)
class FileTask:
    """A task of the file; `number` is its id, or only a hint."""

    ref: str
    title: str
    text: str
    detail: str
    number: str
    is_id: bool
    is_done: bool


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A stored task; `place` is the one in the file of the last import, or -1."""

    ref: str
    title: str
    texts: tuple[str, ...]
    detail: str
    number: str
    is_id: bool
    state: str
    is_started: bool
    place: int


@dataclass(slots=True)
class Matching:
    """The pairs found so far: places in the file to stored tasks, with the reasons."""

    file: Sequence[FileTask]
    stored: Mapping[str, StoredTask]
    pairs: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    guesses: set[int] = field(default_factory=set)
    new: set[int] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)

    def pair(self, place: int, ref: str, reason: str, *, is_guess: bool = False) -> None:
        self.pairs[place] = ref
        self.reasons[place] = reason
        self.taken.add(ref)
        if is_guess:
            self.guesses.add(place)

    @property
    def open_places(self) -> list[int]:
        return [n for n in range(len(self.file)) if n not in self.pairs and n not in self.new]

    @property
    def open_tasks(self) -> list[StoredTask]:
        return [task for ref, task in self.stored.items() if ref not in self.taken]

    def score(self, place: int, stored: StoredTask) -> float:
        # Tasks with two different ids are different, whatever their texts are.
        if self.file[place].is_id and stored.is_id and place not in self.pairs:
            return 0.0
        text = self.file[place].text
        return max(similarity(text, each) for each in stored.texts)


def match_tasks(
    file: Sequence[FileTask], stored: Sequence[StoredTask], *, named: Mapping[str, str]
) -> Matching:
    """Return which task of the file is which stored one; raise PlanAmbiguous if that is unclear.

    `named` are the pairs that the caller names, from the file's refs to stored refs or "new".
    """
    matching = Matching(file, {task.ref: task for task in stored})
    pair_named(matching, named)
    pair_ids(matching)
    pair_texts(matching)
    pair_nearest(matching)
    if NEW not in named:
        refuse_unclear([*find_moved_ids(matching), *find_renamed(matching)], matching)
    return matching


def pair_named(matching: Matching, named: Mapping[str, str]) -> None:
    places = {task.ref: n for n, task in enumerate(matching.file)}
    for file_ref, ref in named.items():
        if file_ref == NEW:
            continue
        if file_ref not in places:
            raise Invalid("/pairs", f"The file has no task {file_ref}.")
        if ref == NEW:
            matching.new.add(places[file_ref])
        elif ref not in matching.stored:
            raise Invalid("/pairs", f"The stored plan has no task {ref}.")
        elif ref in matching.taken:
            raise Invalid("/pairs", f"{ref} is in two pairs.")
        else:
            matching.pair(places[file_ref], ref, "named by the caller")


def pair_ids(matching: Matching) -> None:
    refs = {each: task.ref for task in matching.open_tasks for each in (task.number, task.ref)}
    for n in matching.open_places:
        task = matching.file[n]
        ref = refs.get(task.number, "") if task.is_id else ""
        if ref and ref not in matching.taken:
            matching.pair(n, ref, "same id")


# How duplicates of one text are told apart, the best evidence first.
EVIDENCE: tuple[Callable[[FileTask | StoredTask], Any], ...] = (
    lambda task: (task.title, task.number, task.detail),
    lambda task: (task.title, task.detail),
    lambda task: (task.title, task.number),
    lambda task: task.detail,
    lambda task: task.number,
    lambda task: task.title,
    lambda task: None,
)


def pair_texts(matching: Matching) -> None:
    """Pair the tasks with the same text, and duplicates by other evidence, then in their order."""
    for evidence in EVIDENCE:
        waiting: dict[Any, list[StoredTask]] = {}
        for task in reversed(matching.open_tasks):
            for text in dict.fromkeys(task.texts):
                waiting.setdefault((text, evidence(task)), []).append(task)
        if not waiting:
            return
        for n in matching.open_places:
            wanted = matching.file[n]
            if wanted.is_id and not wanted.text:
                continue
            found = waiting.get((wanted.text, evidence(wanted)), [])
            while found and found[-1].ref in matching.taken:
                found.pop()
            if found:
                matching.pair(n, found.pop().ref, "same text")


def pair_nearest(matching: Matching) -> None:
    """Pair the remaining tasks with the nearest texts, the most similar ones first."""
    # A task that the file marks as done is never guessed: that would end another one.
    known = [task for task in matching.open_tasks if task.place >= 0]
    scored = []
    for n in matching.open_places:
        for task in known:
            if not matching.file[n].is_done and (score := matching.score(n, task)) >= POSSIBLE:
                is_number = bool(task.number) and task.number == matching.file[n].number
                least = CERTAIN if task.is_started else POSSIBLE if is_number else NEAR
                if score >= least:
                    scored.append((-score, not is_number, n, task.ref))
    for score, is_other, n, ref in sorted(scored):
        if n not in matching.pairs and ref not in matching.taken:
            number = "" if is_other else "same number and "
            matching.pair(n, ref, f"{number}similar text ({-score:.2f})", is_guess=True)


# ---- tasks that can't be identified


@dataclass(frozen=True, slots=True)
class Unclear:
    """A started task that may be one of several tasks of the file."""

    stored: StoredTask
    places: list[int]


def find_moved_ids(matching: Matching) -> list[Unclear]:
    """Return the started tasks whose id names another task now: the file was renumbered."""
    texts = {task.text: n for n, task in enumerate(matching.file)}
    others = {text: task.ref for task in matching.stored.values() for text in task.texts}
    found = []
    for n, ref in matching.pairs.items():
        task = matching.stored[ref]
        if not task.is_started or matching.reasons[n] != "same id":
            continue
        if not matching.file[n].text or matching.score(n, task) >= POSSIBLE:
            continue
        moved = next((texts[text] for text in task.texts if text and text in texts), None)
        is_other = others.get(matching.file[n].text, ref) != ref
        if moved is not None or is_other:
            found.append(Unclear(task, [n] if moved is None else [n, moved]))
    return found


def find_renamed(matching: Matching) -> list[Unclear]:
    """Return the started tasks that the file lacks, and the tasks that may be the same work."""
    # Such a task has a similar text, or is in the same gap between tasks that both files have: a
    # place identifies nothing, but work that replaces started work may be the same work.
    gaps = Gaps(matching)
    rest = [n for n in matching.open_places if not matching.file[n].is_done]
    found = []
    for task in matching.open_tasks:
        if not task.is_started or task.place < 0:
            continue
        places = [
            n
            for n in rest
            if matching.score(n, task) >= POSSIBLE
            or (not matching.file[n].is_id and gaps.of_file(n) == gaps.of_stored(task))
        ]
        if places:
            found.append(Unclear(task, places))
    return found


class Gaps:
    """Between which paired tasks a task stands, in the file and in the file before it."""

    def __init__(self, matching: Matching) -> None:
        # A task that the file before did not have stands between no others there.
        self.pairs = {n: r for n, r in matching.pairs.items() if matching.stored[r].place >= 0}
        self.places = sorted(self.pairs)
        kept = sorted((matching.stored[ref].place, ref) for ref in self.pairs.values())
        self.stored_places = [place for place, _ in kept]
        self.stored_refs = [ref for _, ref in kept]

    def of_file(self, place: int) -> tuple[str, str]:
        at = bisect_left(self.places, place)
        before = self.pairs[self.places[at - 1]] if at else ""
        after = self.pairs[self.places[at]] if at < len(self.places) else ""
        return before, after

    def of_stored(self, task: StoredTask) -> tuple[str, str]:
        at = bisect_left(self.stored_places, task.place)
        before = self.stored_refs[at - 1] if at else ""
        after = self.stored_refs[at] if at < len(self.stored_refs) else ""
        return before, after


def refuse_unclear(unclear: Sequence[Unclear], matching: Matching) -> None:
    """Raise PlanAmbiguous with both texts of each task that can't be identified."""
    if not unclear:
        return
    listed: list[dict[str, Any]] = [
        {
            "ref": each.stored.ref,
            "title": each.stored.title,
            "state": each.stored.state,
            "candidates": [
                {
                    "file_ref": matching.file[n].ref,
                    "title": matching.file[n].title,
                    "similarity": round(matching.score(n, each.stored), 2),
                }
                for n in each.places[:MOST_LISTED]
            ],
        }
        for each in unclear[:MOST_LISTED]
    ]
    first = listed[0]
    candidate = first["candidates"][0]
    more = f" {len(unclear) - 1} more tasks are unclear." if len(unclear) > 1 else ""
    raise PlanAmbiguous(
        f"{first['ref']} '{first['title']}' has started, and the file no longer has it under this "
        f"text. Is it {candidate['file_ref']} '{candidate['title']}'?{more}",
        ambiguous=listed,
    )
