"""Find rows by words: each word is the start of a word of the text, in any order.

PostgreSQL's full-text search finds them with the configuration `simple`, which knows no language.
The function `ledger_words` splits texts at everything but letters and digits, so `etree` finds
`xml.etree`; this module splits what is searched in the same way.

The clock writes the words of tasks and instructions a little later: writing them with each row made
an insert nearly twice as slow. Until then a search reads the new rows themselves.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.search import SearchQuery, SearchVectorExact, SearchVectorField
from django.db.models import BooleanField, Func, OuterRef, Q, QuerySet, Subquery, UUIDField, Value
from django.db.models.expressions import RawSQL

from ledger.database import sql
from ledger.models import Failure, Instruction, Task
from ledger.models.bookkeeping import InstructionWords, TaskWords

PART = re.compile(r"[^\W_]+")
TASK_TEXT = "ledger_words(ledger_task_text({0}.title, {0}.type, {0}.ref))".format
INSTRUCTION_TEXT = "ledger_words({0}.content)".format

# Rows with this id or a later one may have no words yet: the rows after the newest one that has
# words, and those of the minute before, because transactions do not commit in the order of their
# rows' ids.
FRESH = """(select coalesce(
    (select uuidv7(uuid_extract_timestamp({column}) - clock_timestamp() - interval '1 minute')
     from {table} order by {column} desc limit 1),
    '00000000-0000-0000-0000-000000000000'))""".format
FRESH_TASKS = FRESH(column="task_id", table="ledger_taskwords")
FRESH_INSTRUCTIONS = FRESH(column="instruction_id", table="ledger_instructionwords")


def words_of(function: str, *columns: str | Func) -> Func:
    return Func(*columns, function=function, output_field=SearchVectorField())


FAILURE_COLUMNS = ("type", "code", "message", "telling_lines")
FAILURE_WORDS = words_of("ledger_failure_words", *FAILURE_COLUMNS)
FAILURE_TEXT = "ledger_failure_words({0}.type, {0}.code, {0}.message, {0}.telling_lines)".format
TASK_WORDS = words_of("ledger_words", Func("title", "type", "ref", function="ledger_task_text"))
INSTRUCTION_WORDS = words_of("ledger_words", "content")


def find_tasks(word: str) -> QuerySet[Any]:
    written = TaskWords.objects.filter(match("words", word)).values_list("task")
    fresh = Task.objects.alias(words=TASK_WORDS).filter(match("words", word), since(FRESH_TASKS))
    return written.union(fresh.values_list("id"))


def find_instructions(word: str) -> QuerySet[Any]:
    written = InstructionWords.objects.filter(match("words", word)).values_list("instruction")
    fresh = Instruction.objects.alias(words=INSTRUCTION_WORDS).filter(
        match("words", word), since(FRESH_INSTRUCTIONS)
    )
    return written.union(fresh.values_list("id"))


def find_failures(word: str) -> QuerySet[Failure]:
    return Failure.objects.alias(words=FAILURE_WORDS).filter(match("words", word))


def match_task(word: str, path: str = "id") -> Q:
    failures = find_failures(word).values_list("task")
    return Q(**{f"{path}__in": find_tasks(word).union(failures)})


def check_task(word: str) -> Q:
    """Return the condition that a task has a word, itself or in a failure, looked up per row."""
    # It finds the first rows of a long list without reading all that have the word. The limits keep
    # PostgreSQL from reading those first.
    written = TaskWords.objects.filter(match("words", word), task=OuterRef("pk"))
    failures = find_failures(word).filter(task=OuterRef("pk"))
    fresh = SearchVectorExact(TASK_WORDS, build_search(word))
    return is_any(written) | since(FRESH_TASKS) & Q(fresh) | is_any(failures)


def is_any(rows: QuerySet[Any]) -> Q:
    found = rows.order_by().values(found=Value(value=True))[:1]
    return Q(Subquery(found, output_field=BooleanField()))


# The statements that find all rows with the words of a tsquery in their full-text index.
OWN_WORDS = (
    "select task_id from ledger_taskwords where words @@ to_tsquery('simple', %({0})s)".format
)
FAILURES = """select task_id from ledger_failure
    where ledger_failure_words(type, code, message, telling_lines)
        @@ to_tsquery('simple', %({0})s)""".format
INSTRUCTIONS = """select instruction_id from ledger_instructionwords
    where words @@ to_tsquery('simple', %({0})s)""".format

# PostgreSQL assumes that a word without statistics is common. With a limit it would then read all
# rows in another order and look for the word in each. A materialized query is planned without the
# limit, so it uses the full-text index, and still runs only as far as it is read.
COUNT_TASKS = f"""(with own as materialized ({OWN_WORDS("{0}")}),
    failed as materialized ({FAILURES("{0}")})
select count(*) from (
    select from own
    union all select from ledger_task t
        where t.id >= {FRESH_TASKS} and {TASK_TEXT("t")} @@ to_tsquery('simple', %({{0}})s)
    union all select from failed
    limit %(most)s
) found) as {{0}}""".format
# whether at least `most` rows of each table have the words of a tsquery
WHERE_COMMON = f"""with own as materialized ({OWN_WORDS("words")}),
    failed as materialized ({FAILURES("words")}),
    told as materialized ({INSTRUCTIONS("words")})
select (select count(*) from (select from own limit %(most)s) found) = %(most)s as own,
    (select count(*) from (select from failed limit %(most)s) found) = %(most)s as failed,
    (select count(*) from (select from told limit %(most)s) found) = %(most)s as told"""


@dataclass(frozen=True, slots=True)
class Common:
    """Whether words are in many tasks, in many failures, and in many instructions."""

    own: bool
    failed: bool
    told: bool

    @property
    def is_any(self) -> bool:
        return self.own or self.failed or self.told


def count_tasks(words: Sequence[str], most: int) -> int:
    """Return how many tasks and failures the rarest word is in, up to a limit."""
    # At most that many tasks have all of the words.
    queries = {f"w{n}": text for n, word in enumerate(words) if (text := build_query(word))}
    if len(queries) < len(words):
        return 0
    asked = ", ".join(map(COUNT_TASKS, queries))
    (row,) = sql.run_custom_plan(f"select {asked}", **queries, most=most)
    counts: list[int] = list(row.values())
    return min(counts)


def match_instruction(word: str, path: str) -> Q:
    return Q(**{f"{path}__in": find_instructions(word)})


def since(id: str) -> Q:
    return Q(id__gte=RawSQL(id, (), output_field=UUIDField()))  # noqa: S611 — one of two constants


def match(column: str, word: str) -> Q:
    """Return the condition that a column has a word or phrase; its last word may be a prefix."""
    return Q(**{column: build_search(word)}) if build_query(word) else Q(pk__in=[])


def build_search(word: str) -> SearchQuery:
    return SearchQuery(build_query(word), config="simple", search_type="raw")


def build_query(word: str) -> str:
    """Return the text search query for a word or a phrase.

    >>> build_query("xml.etr")
    "'xml' <-> 'etr':*"
    >>> build_query("?!")
    ''
    """
    parts = [f"'{part}'" for part in PART.findall(word)]
    return " <-> ".join(parts) + ":*" if parts else ""
