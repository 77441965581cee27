"""Separate words that many tasks have from words that few have.

Few tasks are read from the index of words and put in order. To read all tasks with a common word
takes seconds, so a list and its counts walk the newest tasks, and look for the words in each.
"""

from dataclasses import replace

from django.db.models import QuerySet, Subquery
from django.db.models.functions import Coalesce

from dashboard.lists.shared_queries import hash_of
from dashboard.tasks.filters import TaskQuery
from dashboard.tasks.queries import filter_tasks
from dashboard.wording.formatting import COUNT_CAP
from ledger import search_words
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Project, Task
from ledger.values.ids import FIRST_ID

# the tasks walked for a page (one match in a hundred fills it), and for a count
MOST_WALKED, MOST_COUNTED = 4_000, 1_000


def are_common(words: tuple[str, ...]) -> bool:
    """Return whether each of the words is in more tasks than the counting cap."""

    def count() -> int:
        return search_words.count_tasks(words, COUNT_CAP + 1)

    return bool(words) and get_or_compute_slow(f"tasks-with:{hash_of(words)}", count) > COUNT_CAP


def list_newest(query: TaskQuery, project: Project | None, most: int) -> QuerySet[Task]:
    """Return the tasks that have the words among the `most` newest that match the rest."""
    others = filter_tasks(replace(query, words=()), project).order_by("-id").values("id")
    end = Coalesce(Subquery(others[most : most + 1]), FIRST_ID)
    return filter_tasks(query, project, has_word=search_words.check_task).filter(id__gt=end)
