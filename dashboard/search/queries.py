"""Find rows by words, a few of each noun: every query stops at a hundred rows."""

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from dashboard.shared_queries import of_project
from ledger import search_words, sql
from ledger.models import Agent, Instruction, Plan, Project
from ledger.search_words import FRESH_INSTRUCTIONS, FRESH_TASKS, INSTRUCTION_TEXT, TASK_TEXT
from retries.models import FailurePattern
from retries.states import EscalationState

MOST = 100  # rows that a query counts
SHOWN = 3
WIDE = 1_000  # tasks whose escalations are looked for


@dataclass(frozen=True, slots=True)
class Hits:
    """The first rows that were found, and how many there are, up to MOST and one more."""

    rows: list[Any]
    count: int


def cut(rows: list[Any]) -> Hits:
    return Hits(rows[:SHOWN], len(rows))


# A branch reads an index in its order or finds few rows in a full-text index, as the planner sees
# fit. A task is found by its own words or by those of one of its failures.
FOUND_TASKS = f"""(
        select w.task_id from ledger_taskwords w join ledger_task t on t.id = w.task_id
        where w.words @@ to_tsquery('simple', %(words)s)
            and (%(project)s::uuid is null or t.project_id = %(project)s)
        order by w.task_id desc limit {{most}}
    ) union (
        select t.id from ledger_task t
        where t.id >= {FRESH_TASKS} and {TASK_TEXT("t")} @@ to_tsquery('simple', %(words)s)
            and (%(project)s::uuid is null or t.project_id = %(project)s)
        order by t.id desc limit {{most}}
    ) union (
        select f.task_id from ledger_failure f join ledger_task t on t.id = f.task_id
        where ledger_failure_words(f.type, f.code, f.message) @@ to_tsquery('simple', %(words)s)
            and (%(project)s::uuid is null or t.project_id = %(project)s)
        order by f.id desc limit {{most}}
    )"""
TASKS = f"""with found as ({FOUND_TASKS.format(most=MOST + 1)})
select t.id, t.ref, t.title, t.type, t.state, left(t.error, 300) as error,
    a.name as agent, p.name as project
from found join ledger_task t on t.id = found.task_id
    join ledger_agent a on a.id = t.agent_id join ledger_project p on p.id = t.project_id
order by t.id desc limit {MOST + 1}"""
ESCALATIONS = f"""with found as ({FOUND_TASKS.format(most=WIDE)}),
told as ((
    select instruction_id from ledger_instructionwords
    where words @@ to_tsquery('simple', %(words)s) order by instruction_id desc limit {WIDE}
) union (
    select i.id from ledger_instruction i
    where i.id >= {FRESH_INSTRUCTIONS}
        and {INSTRUCTION_TEXT("i")} @@ to_tsquery('simple', %(words)s)
    order by i.id desc limit {WIDE}
))
select e.id, e.question, e.reason, t.title, t.type, left(t.error, 300) as error,
    left(i.content, 300) as content, a.name as agent, p.name as project
from retries_escalation e
    join ledger_agent a on a.id = e.agent_id join ledger_project p on p.id = e.project_id
    left join ledger_task t on t.id = e.task_id
    left join ledger_instruction i on i.id = e.instruction_id
where e.state = '{EscalationState.OPEN}'
    and (%(project)s::uuid is null or e.project_id = %(project)s)
    and (e.question ilike %(like)s or e.task_id in (select task_id from found)
        or e.instruction_id in (select instruction_id from told))
order by e.id limit {MOST + 1}"""


def build_tsquery(words: list[str]) -> str:
    """Return the text search query for all of these words."""
    return " & ".join(f"({part})" for part in map(search_words.build_query, words) if part)


def find_tasks(words: list[str], project: UUID | None) -> Hits:
    return find(TASKS, words, project)


def find_escalations(words: list[str], project: UUID | None) -> Hits:
    """Return open escalations, the oldest first."""
    return find(ESCALATIONS, words, project, like=f"%{sql_like(' '.join(words))}%")


def find(text: str, words: list[str], project: UUID | None, **more: str) -> Hits:
    query = build_tsquery(words)
    # planned with its values: how often a word occurs decides which index serves
    return cut(sql.run_custom_plan(text, words=query, project=project, **more) if query else [])


def sql_like(text: str) -> str:
    """Return a text that LIKE takes to the letter."""
    return text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def find_instructions(words: list[str], project: Project | None) -> Hits:
    rows = of_project(Instruction.objects.select_related("agent", "project"), project)
    for word in words:
        rows = rows.filter(id__in=search_words.find_instructions(word))
    return cut(list(rows.order_by("-id")[: MOST + 1]))


def find_patterns(words: list[str], project: Project | None) -> Hits:
    rows = of_project(FailurePattern.objects.current().select_related("project"), project)
    return cut(list(having(rows, words, "template", "example").order_by("-last_seen")[: MOST + 1]))


def find_agents(words: list[str], project: Project | None) -> Hits:
    rows = of_project(Agent.objects.select_related("project"), project)
    return cut(list(having(rows, words, "name").order_by("name", "id")[: MOST + 1]))


def find_plans(words: list[str], project: Project | None) -> Hits:
    rows = of_project(Plan.objects.select_related("project"), project)
    return cut(list(having(rows, words, "ref", "title").order_by("-id")[: MOST + 1]))


VOCABULARY = """(select title as text from ledger_task
        where (%(project)s::uuid is null or project_id = %(project)s) order by id desc limit 500)
    union all (select name from ledger_agent
        where (%(project)s::uuid is null or project_id = %(project)s) order by id desc limit 200)
    union all (select ref || ' ' || title from ledger_plan
        where (%(project)s::uuid is null or project_id = %(project)s) order by id desc limit 100)
    union all (select template from retries_failurepattern
        where (%(project)s::uuid is null or project_id = %(project)s)
        order by last_seen desc limit 200)"""
WORD = re.compile(r"[\w-]{3,40}")


def list_known_words(project: UUID | None) -> list[str]:
    """Return the words of the newest titles and errors, and the names, each once."""
    rows = sql.run(VOCABULARY, project=project)
    return list(
        dict.fromkeys(word for row in rows for word in WORD.findall((row["text"] or "").lower()))
    )


def having(rows: QuerySet[Any], words: list[str], *columns: str) -> QuerySet[Any]:
    """Return the rows that have each word in one of these columns."""
    for word in words:
        found = Q()
        for column in columns:
            found |= Q(**{f"{column}__icontains": word})
        rows = rows.filter(found)
    return rows
