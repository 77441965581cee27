"""Compare the titles of tasks as texts (pure)."""

import difflib
import re
import unicodedata
from functools import lru_cache

# A text that scores below POSSIBLE is another task's. From NEAR on, it is paired with a task that
# has not started, which an import may change anyway; with a started task only if all words agree.
# `bench plans` prints how often these limits are wrong.
POSSIBLE, NEAR, CERTAIN = 0.45, 0.66, 1.0
SUBSTITUTED = 0.75
MOST_RESPELLED = 2  # words of a title; more are another title

# A number at the start of a title: 1.2, T001:, Task 3 -, #4; but not the number of "Step 3 of 5".
NUMBER = re.compile(
    r"^\W*(?:(?:t|#)[_-]?#?[0-9]+(?:\.[0-9]+)*[.:)]?(?=\W|$)|"
    r"(?:(?:sub)?task|step)[ _-]?#?[0-9]+(?:\.[0-9]+)*(?:[.:)]|\s{0,3}[-–—:])|"
    r"[0-9]+(?:\.[0-9]+)+[.:)]?(?=\s)|[0-9]+[.:)](?=\s))",
    re.I,
)
MARKS = re.compile(
    r"\[(?:P|US[0-9]+|Story[^\]]{0,20}|[ xX]?)\]|\((?:optional|depends on [^)]{0,200})\)"
)
# Chinese, Japanese, and Korean write words without spaces: each character counts.
WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{WIDE}]|[^\W_{WIDE}]+[+#]*")
FILLER_WORDS = "a an the and or of to in on for with from by is are be as at into"
FILLERS = frozenset(FILLER_WORDS.split(" "))


@lru_cache(maxsize=8192)
def normalize(text: str) -> str:
    """Return a title's words, without the marks and numbers that people change around them.

    >>> normalize("- [ ] **T003** [P] Add the *index*!"), normalize("2.1 add the index")
    ('add the index', 'add the index')
    >>> normalize("Port it to C++") == normalize("Port it to C#")
    False
    >>> normalize("Step 1: draw it"), normalize("Step 1 of the tour")
    ('draw it', 'step 1 of the tour')
    """
    folded = MARKS.sub(" ", unicodedata.normalize("NFKC", text))
    words = WORD.findall(NUMBER.sub(" ", folded, count=1).casefold())
    return " ".join(words) or " ".join(folded.casefold().split())


@lru_cache(maxsize=8192)
def content_words(text: str) -> frozenset[str]:
    words = frozenset(text.split())
    return words - FILLERS or words


def similarity(one: str, other: str) -> float:
    """Return how much two normalized texts have in common, from 0 to 1.

    A word that is spelled a little differently is the same word; another number never is. Texts
    that each have a word of their own are less alike than if one only says more.

    >>> similarity("add the login page", "add a lgoin page")
    1.0
    >>> similarity("test module 3", "test module 4") < NEAR
    True
    """
    ours, theirs = content_words(one), content_words(other)
    total = len(ours) + len(theirs)
    same = len(ours & theirs)
    left, right = len(ours) - same, len(theirs) - same
    if left and right and left + right <= 2 * MOST_RESPELLED:
        found = count_respelled(ours - theirs, theirs - ours)
        same, left, right = same + found, left - found, right - found
    score = 2 * same / total if total else 0.0
    return score * SUBSTITUTED if left and right else score


def count_respelled(ours: frozenset[str], theirs: frozenset[str]) -> int:
    rest = sorted(theirs)
    count = 0
    for word in sorted(ours):
        if twin := next((each for each in rest if is_respelled(word, each)), ""):
            rest.remove(twin)
            count += 1
    return count


@lru_cache(maxsize=65536)
def is_respelled(word: str, other: str) -> bool:
    if word[0] != other[0] or abs(len(word) - len(other)) > 2 or min(len(word), len(other)) < 4:
        return False
    if any(char.isdigit() for char in word + other):
        return False
    if sorted(word) == sorted(other):
        return True
    return difflib.SequenceMatcher(None, word, other, autojunk=False).ratio() >= 0.85
