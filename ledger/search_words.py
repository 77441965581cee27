"""Find rows by words: each word is the start of a word of the text, in any order.

PostgreSQL's full-text search finds them with the configuration `simple`, which knows no language.
The function `ledger_words` splits texts at everything but letters and digits, so `etree` finds
`xml.etree`; this module splits what is searched in the same way.
"""

import re

from django.contrib.postgres.search import SearchQuery, SearchVectorField
from django.db.models import Func, Q, QuerySet

from ledger.models import Failure
from ledger.models.search_words import InstructionWords, TaskWords

PART = re.compile(r"[^\W_]+")
FAILURE_WORDS = Func(
    *("type", "code", "message"), function="ledger_failure_words", output_field=SearchVectorField()
)


def find_tasks(word: str) -> QuerySet[TaskWords]:
    """Return the tasks with a word or a phrase in their title, type or ref."""
    return TaskWords.objects.filter(match("words", word))


def find_instructions(word: str) -> QuerySet[InstructionWords]:
    """Return the instructions with a word or a phrase."""
    return InstructionWords.objects.filter(match("words", word))


def find_failures(word: str) -> QuerySet[Failure]:
    """Return the failures with a word or a phrase in their type, code or message."""
    return Failure.objects.alias(words=FAILURE_WORDS).filter(match("words", word))


def match_task(word: str, path: str) -> Q:
    """Return the condition that the task at a lookup has a word, itself or in a failure."""
    titles = find_tasks(word).values("task")
    return Q(**{f"{path}__in": titles.union(find_failures(word).values("task"))})


def match_instruction(word: str, path: str) -> Q:
    """Return the condition that the instruction at a lookup has a word."""
    return Q(**{f"{path}__in": find_instructions(word).values("instruction")})


def match(column: str, word: str) -> Q:
    """Return the condition that a column has a word or a phrase; the last word may go on."""
    query = build_query(word)
    if not query:
        return Q(pk__in=[])
    return Q(**{column: SearchQuery(query, config="simple", search_type="raw")})


def build_query(word: str) -> str:
    """Return the text search query for a word or a phrase.

    >>> build_query("xml.etr")
    "'xml' <-> 'etr':*"
    >>> build_query("?!")
    ''
    """
    parts = [f"'{part}'" for part in PART.findall(word)]
    return " <-> ".join(parts) + ":*" if parts else ""
