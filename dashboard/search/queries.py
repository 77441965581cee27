"""Find rows by words, a few of each noun: every query stops at a hundred rows."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from dashboard.lists.known_names import list_words
from dashboard.lists.shared_queries import SAMPLED, hash_of, of_project, pattern_has_words
from ledger import search_words
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Agent, Plan, Project
from ledger.search_words import (
    FAILURE_TEXT,
    FRESH_INSTRUCTIONS,
    FRESH_TASKS,
    INSTRUCTION_TEXT,
    TASK_TEXT,
    Common,
)
from retries.models import FailurePattern
from retries.states import EscalationState

MOST = 100  # rows that a query counts
SHOWN = 3
MANY = 1_000  # words in this many rows are common
WALKED = 250  # open escalations that are searched for common words


@dataclass(frozen=True, slots=True)
class Hits:
    """The first rows that were found, and how many there are, up to MOST and one more.

    `are_some` says whether only a part of the rows was searched.
    """

    rows: list[Any]
    count: int
    are_some: bool = False


def cut(rows: list[Any], *, are_some: bool = False) -> Hits:
    return Hits(rows[:SHOWN], len(rows), are_some and len(rows) <= MOST)


# Words that few rows have are read from their full-text index, and then put in order. For words
# that many rows have, the newest rows are read until enough have them.
NEWEST_OWN_WORDS = f"""select w.task_id
    from ledger_taskwords w join ledger_task t on t.id = w.task_id
    where w.words @@ to_tsquery('simple', %(words)s)
        and (%(project)s::uuid is null or t.project_id = %(project)s)
    order by w.task_id desc limit {MOST + 1}"""
NEWEST_FAILURES = f"""select f.task_id
    from ledger_failure f join ledger_task t on t.id = f.task_id
    where {FAILURE_TEXT("f")} @@ to_tsquery('simple', %(words)s)
        and (%(project)s::uuid is null or t.project_id = %(project)s)
    order by f.id desc limit {MOST + 1}"""
# the headline that the inbox shows; a failure without one may not have been read by the clock
HEADLINE = """coalesce((select nullif(split_part(f.telling_lines, E'\\n', 1), '')
    from ledger_failure f where f.task_id = t.id order by f.id desc limit 1), left(t.error, 300))"""
TASKS = f"""with own as materialized ({{own}}), failed as materialized ({{failed}}),
found as (
    select task_id from own union select task_id from failed union select unnest(%(fresh)s::uuid[])
)
select t.id, t.ref, t.title, t.type, t.state, {HEADLINE} as error,
    a.name as agent, p.name as project
from found join ledger_task t on t.id = found.task_id
    join ledger_agent a on a.id = t.agent_id join ledger_project p on p.id = t.project_id
where %(project)s::uuid is null or t.project_id = %(project)s
order by t.id desc limit {MOST + 1}"""

# Where many rows have the words, they are looked for in those of WALKED open escalations. The
# limits keep PostgreSQL from reading all rows with the words first.
HAS_OWN_WORDS = """(select true from ledger_taskwords w where w.task_id = e.task_id
    and w.words @@ to_tsquery('simple', %(words)s) limit 1)"""
# Only the last failure counts, as in the inbox, to which the results link.
HAS_FAILURE = f"""(select {FAILURE_TEXT("f")} @@ to_tsquery('simple', %(words)s)
    from ledger_failure f where f.task_id = e.task_id order by f.id desc limit 1)"""
HAS_INSTRUCTION = """(select true from ledger_instructionwords w
    where w.instruction_id = e.instruction_id
        and w.words @@ to_tsquery('simple', %(words)s) limit 1)"""
OPEN = f"""select id, question, reason, agent_id, project_id, task_id, instruction_id
    from retries_escalation where state = '{EscalationState.OPEN}'
    and (snoozed_until is null or snoozed_until <= now())
    and (%(project)s::uuid is null or project_id = %(project)s) order by id"""
ARE_MANY_OPEN = f"select exists ({OPEN} offset {WALKED}) as found"
ESCALATIONS = f"""select e.id, e.question, e.reason, t.title, t.type, {HEADLINE} as error,
    left(i.content, 300) as content, a.name as agent, p.name as project
from ({OPEN} limit {{walked}}) e
    join ledger_agent a on a.id = e.agent_id join ledger_project p on p.id = e.project_id
    left join ledger_task t on t.id = e.task_id
    left join ledger_instruction i on i.id = e.instruction_id
where (e.question ilike %(like)s or {{own}} or {{failed}} or {{told}}
        or e.task_id = any(%(fresh)s) or e.instruction_id = any(%(fresh_told)s))
order by e.id limit {MOST + 1}"""

NEWEST_INSTRUCTIONS = f"""select w.instruction_id from ledger_instructionwords w
    join ledger_instruction i on i.id = w.instruction_id
    where w.words @@ to_tsquery('simple', %(words)s)
        and (%(project)s::uuid is null or i.project_id = %(project)s)
    order by w.instruction_id desc limit {MOST + 1}"""
INSTRUCTIONS = f"""with told as materialized ({{told}}),
found as (select instruction_id from told union select unnest(%(fresh_told)s::uuid[]))
select i.id, left(i.content, 300) as content, i.state, a.name as agent, p.name as project
from found join ledger_instruction i on i.id = found.instruction_id
    join ledger_agent a on a.id = i.agent_id join ledger_project p on p.id = i.project_id
where %(project)s::uuid is null or i.project_id = %(project)s
order by i.id desc limit {MOST + 1}"""


# The newest rows, whose words the clock has not written yet.
FRESH = f"""with tasks as materialized (
    select id, {TASK_TEXT("t")} as words from ledger_task t where id = any(array(
        select id from ledger_task where id >= {FRESH_TASKS}
        except select task_id from ledger_taskwords where task_id >= {FRESH_TASKS}))
), told as materialized (
    select id, {INSTRUCTION_TEXT("i")} as words from ledger_instruction i where id = any(array(
        select id from ledger_instruction where id >= {FRESH_INSTRUCTIONS}
        except select instruction_id from ledger_instructionwords
            where instruction_id >= {FRESH_INSTRUCTIONS}))
)
select array(select id from tasks where words @@ to_tsquery('simple', %(words)s)) as fresh,
    array(select id from told where words @@ to_tsquery('simple', %(words)s)) as fresh_told"""


@dataclass(frozen=True, slots=True)
class WordSearch:
    """Words as a tsquery, with where they are common; None if no word can be searched for.

    `fresh` has the ids of the new tasks and instructions with the words, by their parameters.
    """

    words: list[str]
    query: str
    common: Common | None
    fresh: dict[str, list[UUID]]

    def run(self, text: str, project: UUID | None, **more: str) -> list[Any]:
        # planned with its values: how often a word occurs decides which index serves
        params = {"words": self.query, "project": project, **self.fresh, **more}
        return sql.run_custom_plan(text, **params)


def prepare_search(words: list[str]) -> WordSearch:
    query = " & ".join(f"({part})" for part in map(search_words.build_query, words) if part)
    if not query:
        return WordSearch(words, query, None, {})
    fresh: dict[str, list[UUID]] = {}

    def find_common() -> Common:
        text = f"select * from ({search_words.WHERE_COMMON}) common, ({FRESH}) fresh"
        (row,) = sql.run_custom_plan(text, words=query, most=MANY)
        fresh.update({name: row.pop(name) for name in ("fresh", "fresh_told")})
        return Common(**row)

    common = get_or_compute_slow(f"common-words:{hash_of(query)}", find_common)
    if not fresh:  # only the result for common words is cached
        (fresh,) = sql.run_custom_plan(FRESH, words=query)
    return WordSearch(words, query, common, fresh)


def tasks_statement(common: Common) -> str:
    return TASKS.format(
        own=NEWEST_OWN_WORDS if common.own else search_words.OWN_WORDS("words"),
        failed=NEWEST_FAILURES if common.failed else search_words.FAILURES("words"),
    )


def escalations_statement(common: Common) -> str:
    own, failed = search_words.OWN_WORDS("words"), search_words.FAILURES("words")
    return ESCALATIONS.format(
        own=HAS_OWN_WORDS if common.own else f"e.task_id in ({own})",
        failed=HAS_FAILURE if common.failed else f"(e.task_id in ({failed}) and {HAS_FAILURE})",
        told=HAS_INSTRUCTION
        if common.told
        else f"e.instruction_id in ({search_words.INSTRUCTIONS('words')})",
        walked=WALKED if common.is_any else "null",
    )


def instructions_statement(common: Common) -> str:
    return INSTRUCTIONS.format(
        told=NEWEST_INSTRUCTIONS if common.told else search_words.INSTRUCTIONS("words")
    )


def find_tasks(search: WordSearch, project: UUID | None) -> Hits:
    return cut(search.run(tasks_statement(search.common), project) if search.common else [])


# The list of tasks takes the text as one phrase. If the newest failures have it, no index is read.
HAS_FAILURE_WITH = f"""with newest as materialized (
    select task_id from (select * from ledger_failure order by id desc limit {SAMPLED}) f
    where {FAILURE_TEXT("f")} @@ to_tsquery('simple', %(words)s)
), failed as materialized ({search_words.FAILURES("words")})
select exists (
    select from (select * from newest union all select * from failed limit {MANY}) f
    where %(project)s::uuid is null
        or (select project_id from ledger_task where id = f.task_id) = %(project)s
) as found"""


def has_failure(text: str, project: Project | None) -> bool:
    query = search_words.build_query(text)
    params = {"words": query, "project": project.pk if project else None}
    return bool(query and sql.run_custom_plan(HAS_FAILURE_WITH, **params)[0]["found"])


def find_escalations(search: WordSearch, project: UUID | None) -> Hits:
    if not search.common:
        return cut([])
    like = f"%{sql_like(' '.join(search.words))}%"
    rows = search.run(escalations_statement(search.common), project, like=like)
    are_some = search.common.is_any and sql.run(ARE_MANY_OPEN, project=project)[0]["found"]
    return cut(rows, are_some=are_some)


def sql_like(text: str) -> str:
    return text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def find_instructions(search: WordSearch, project: UUID | None) -> Hits:
    return cut(search.run(instructions_statement(search.common), project) if search.common else [])


def find_patterns(words: list[str], project: Project | None) -> Hits:
    rows = of_project(FailurePattern.objects.current().select_related("project"), project)
    for word in words:
        rows = rows.filter(pattern_has_words(word))
    return cut(list(rows.order_by("-last_seen")[: MOST + 1]))


def find_agents(words: list[str], project: Project | None) -> Hits:
    rows = of_project(Agent.objects.select_related("project"), project)
    return cut(list(match_words(rows, words, "name").order_by("name", "id")[: MOST + 1]))


def find_plans(words: list[str], project: Project | None) -> Hits:
    rows = of_project(Plan.objects.select_related("project"), project)
    return cut(list(match_words(rows, words, "ref", "title").order_by("-id")[: MOST + 1]))


VOCABULARY = """(select title as text from ledger_task
        where (%(project)s::uuid is null or project_id = %(project)s) order by id desc limit 500)
    union all (select name from ledger_agent
        where (%(project)s::uuid is null or project_id = %(project)s) order by id desc limit 200)
    union all (select ref || ' ' || title from ledger_plan
        where (%(project)s::uuid is null or project_id = %(project)s) order by id desc limit 100)
    union all (select template from retries_failurepattern
        where (%(project)s::uuid is null or project_id = %(project)s)
        order by last_seen desc limit 200)"""


def list_known_words(project: UUID | None) -> list[str]:
    """Return the words of the newest titles and errors, and the names, without duplicates."""
    rows = sql.run(VOCABULARY, project=project)
    return list_words(row["text"] or "" for row in rows)


def match_words(rows: QuerySet[Any], words: list[str], *columns: str) -> QuerySet[Any]:
    for word in words:
        found = Q()
        for column in columns:
            found |= Q(**{f"{column}__icontains": word})
        rows = rows.filter(found)
    return rows
