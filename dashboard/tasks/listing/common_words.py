"""Separate words and stored values that many tasks have from those that few have.

Few tasks are read from an index and put in order. To read all tasks with a common word takes
seconds, so a list and its counts walk the newest tasks, and look for the words in each.
"""

from dataclasses import replace

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import QuerySet

from dashboard.lists.shared_queries import hash_of
from dashboard.tasks.filters import TaskQuery
from dashboard.tasks.queries import filter_tasks
from dashboard.wording.formatting import COUNT_CAP
from ledger import search_words
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Project, Task
from ledger.models.fields import IsAmong
from retries.journal_readers import stored_values

# the tasks walked for a page (one match in a hundred fills it), and for a count
MOST_WALKED, MOST_COUNTED = 4_000, 1_000


def are_common(query: TaskQuery, project: Project | None) -> bool:
    """Return whether each of a query's words and values is in more tasks than the counting cap."""
    sought = [(key, values.wanted) for key, values in query.stored if values.wanted]

    def count() -> int:
        most = COUNT_CAP + 1
        found = [stored_values.count_tasks(*each, project, most) for each in sought]
        return min(found + ([search_words.count_tasks(query.words, most)] if query.words else []))

    key = hash_of((query.words, sought, project and sought and project.pk))
    return query.is_searched and get_or_compute_slow(f"tasks-with:{key}", count) > COUNT_CAP


def list_newest(query: TaskQuery, project: Project | None, most: int) -> QuerySet[Task]:
    """Return the tasks that have the words among the `most` newest that match the rest."""
    # Of a range of ids, PostgreSQL expects a third of the table, and starts parallel workers.
    others = filter_tasks(unsearched(query), project).order_by("-id").values("id")
    newest = IsAmong("id", ArraySubquery(others[:most]))
    return filter_tasks(query, project, walks=True).filter(newest)


def unsearched(query: TaskQuery) -> TaskQuery:
    return replace(query, words=(), stored=())
