"""Separate words that many tasks have from words that few have.

Few tasks are read from the index of words and put in order. To read all tasks with a common word
takes seconds, so a list walks its order instead, and looks for the words in each task.
"""

from dashboard.lists.shared_queries import hash_of
from dashboard.wording.formatting import COUNT_CAP
from ledger import search_words
from ledger.database.optional_cache import get_or_compute_slow

# finished tasks that are walked for a page; one in a hundred of them fills it
MOST_WALKED = 4_000


def are_common(words: tuple[str, ...]) -> bool:
    """Return whether each of the words is in more tasks than are counted."""

    def count() -> int:
        return search_words.count_tasks(words, COUNT_CAP + 1)

    return bool(words) and get_or_compute_slow(f"tasks-with:{hash_of(words)}", count) > COUNT_CAP
