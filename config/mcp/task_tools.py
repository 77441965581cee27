"""Tools for tasks and plans: everyone reads, producers create and import."""

import json
from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, Field, StrictBool, StrictInt

from config.mcp.tools import Reply, Tool, join, perform, select
from ledger import planfile
from ledger.api.responses import encode
from ledger.schemas.plans import ImportQuery
from ledger.schemas.shared import AGENT_ID_OR_NAME, CURSOR, PLAN_ID_OR_REF, STATES, In
from ledger.schemas.tasks import TaskIn, TaskQuery
from ledger.tasks.spec import MAX_ATTEMPTS, MAX_NEEDS, TITLE_LENGTH
from retries.api import plans, tasks
from retries.api.settings import budgets
from retries.api.tasks import EnqueueQuery
from retries.schemas.settings.budgets import BudgetQuery

LISTED = (
    *("id", "ref", "plan", "title", "type", "state", "blocked_reason", "not_before", "agent"),
    "pool",
    *("files_held_by", "attempts", "attempt_limit", "priority", "updated_at"),
)
MEDIA = {
    "": "",
    "json": "application/json",
    "yaml": "application/yaml",
    "xml": "application/xml",
    "markdown": "text/markdown",
}


class TaskArguments(In):
    id: UUID = Field(description="the task's id")


def get_task(request: Any, given: TaskArguments) -> Reply:
    """Read a task: its state, what it asks for, its last error, and its open escalation."""
    task = perform(tasks.tasks_get, request, given.id)
    asked = f" A person is asked: escalation {task['escalation']}." if task["escalation"] else ""
    error = f"Its last error: {task['error']}" if task["error"] else ""
    return Reply(join(describe_task(task) + asked, error), task, shown=describe_payload(task))


def describe_task(task: dict[str, Any]) -> str:
    name = task["ref"] or task["id"]
    title = f" '{task['title']}'" if task["title"] else ""
    why = f" ({task['blocked_reason']})" if task["blocked_reason"] else ""
    if task["blocked_reason"] == "not_before":
        why = f" until {task['not_before']}"
    if holder := task["files_held_by"]:
        why = f" (its files are in use by task {holder})"
    tries = f"attempt {task['attempts']} of {task['attempt_limit']}"
    return f"{name}{title} is {task['state']}{why}, {tries}, for {task['agent']}."


def describe_payload(task: dict[str, Any]) -> str:
    return json.dumps(task["payload"], ensure_ascii=False) if task["payload"] else ""


class TasksArguments(In):
    state: str = Field("", description=STATES)
    plan: str = Field("", description=PLAN_ID_OR_REF)
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    type: str = ""
    ref: str = Field("", description="a task's ref, such as 03-01:task-3")
    q: str = Field("", max_length=200, description="text in the title")
    limit: StrictInt = Field(20, ge=1, le=100)
    cursor: str = Field("", description=CURSOR)


def list_tasks(request: Any, given: TasksArguments) -> Reply:
    """List tasks with their states, newest first. Call this to see what is going on."""
    query = TaskQuery(updated_after=None, **given.model_dump())
    page = perform(tasks.tasks_list, request, query)
    lines = [f"- {describe_task(task)}" for task in page["data"]]
    cursor = page["next_cursor"]
    more = f"There are more: call list_tasks with the cursor {cursor}." if cursor else ""
    count = f"{len(lines)} tasks." if len(lines) > 1 else "1 task." if lines else "No task matches."
    return Reply(
        f"{count} {more}".strip(),
        {"tasks": [select(task, *LISTED) for task in page["data"]], **select(page, "next_cursor")},
        shown="\n".join(lines),
    )


class ForecastArguments(In):
    plan: str = Field(min_length=1, description=PLAN_ID_OR_REF)


def get_plan_forecast(request: Any, given: ForecastArguments) -> Reply:
    """Read when a plan in progress will be done and what it will cost, with 80% intervals."""
    found = perform(plans.plans_get_forecast, request, given.plan)
    ends, cost = found["ends_at"], found["cost"]
    if ends is None:
        return Reply(f"No forecast. {found['sentence']}", found)
    said = f"Done by {ends['median']}, 80% between {ends['low']} and {ends['high']}."
    if cost:
        amounts = (f"{cost[name]:,.2f}" for name in ("median", "low", "high"))
        said += " Cost in {}: {}, 80% between {} and {}.".format(found["cost_unit"], *amounts)
    return Reply(said, found)


class BudgetsArguments(In):
    plan: str = Field("", description=PLAN_ID_OR_REF)
    limit: StrictInt = Field(20, ge=1, le=100)
    cursor: str = Field("", description=CURSOR)


def list_budgets(request: Any, given: BudgetsArguments) -> Reply:
    """List budgets of the project, its plans and its tasks, with what is used of them."""
    page = perform(budgets.budgets_list, request, BudgetQuery(task=None, **given.model_dump()))
    lines = [f"- {describe_budget(each)}" for each in page["data"]]
    count = f"{len(lines)} listed." if lines else "There is no budget here."
    data = {"budgets": page["data"], **select(page, "next_cursor")}
    return Reply(count, data, shown="\n".join(lines))


def describe_budget(row: dict[str, Any]) -> str:
    name = row["plan_ref"] or row["task"] or ""
    period = " per day" if row["period"] == "day" else ""
    used = f"{row['used']:,g} of {row['limit']:,g} {row['unit']}{period} used"
    end = ", and its tasks wait" if row["used_up"] else ""
    return f"{row['scope']} {name}".rstrip() + f": {used}{end}."


class CreateArguments(In):
    title: str = Field(min_length=1, max_length=TITLE_LENGTH)
    action: str = Field(
        min_length=1, description="what to do, with all that the agent needs to know"
    )
    agent: str = Field(
        "", description="the agent's or pool's name; an agent's own token may leave it out"
    )
    type: str = Field("code", description="a name for the kind of work, such as code or review")
    verify: str = Field("", description="a shell command that succeeds once the task is done")
    needs: list[UUID] = Field(
        default_factory=list, max_length=MAX_NEEDS, description="ids of tasks that come first"
    )
    max_attempts: StrictInt | None = Field(None, ge=1, le=MAX_ATTEMPTS)
    priority: StrictInt = Field(
        0, description="higher comes first; an agent's own token can set at most 0"
    )
    not_before: AwareDatetime | None = Field(
        None, description="no attempt starts before this time, such as 2026-10-12T18:00:00Z"
    )


def create_task(request: Any, given: CreateArguments) -> Reply:
    """Create a task that an agent claims, tries, and retries until it is done.

    Call this for work that must not get lost; it doesn't start the task.
    """
    verify = {"verify": {"command": given.verify}} if given.verify else {}
    body = TaskIn.model_validate(
        given.model_dump(exclude={"action", "verify"})
        | {"payload": {"action": given.action} | verify}
    )
    task = perform(tasks.tasks_create, request, body, EnqueueQuery(claim=False))
    return Reply(f"Created: {describe_task(task)}", select(task, *LISTED))


class ImportArguments(In):
    content: str = Field(min_length=1, description="the plan as JSON, YAML, XML, or Markdown")
    format: Literal["", "json", "yaml", "xml", "markdown"] = Field(
        "", description="detected if you leave it out"
    )
    ref: str = Field("", description="the plan's ref if the text names none, such as 03-01")
    agent: str = Field("", description="the agent for tasks that name none")
    mode: Literal["create", "merge", "replace"] = Field(
        "create", description="what to do if the plan exists with different content"
    )
    dry_run: StrictBool = Field(False, description="true to see what would change")
    register_: StrictBool = Field(False, alias="register", description="register unknown agents")
    pairs: str = Field(
        "", description="if a merge is ambiguous: task-2=task-1,task-3=new, or new for all"
    )


def import_plan(request: Any, given: ImportArguments) -> Reply:
    """Import a plan of several tasks, completely or not at all.

    Call this for work in steps that depend on each other; the same plan again changes nothing.
    """
    parsed = planfile.parse(
        given.content.encode(), media=MEDIA[given.format], agent=given.agent, ref=given.ref
    )
    options = given.model_dump(exclude={"content", "format"}, by_alias=True)
    query = ImportQuery.model_validate(options)
    _, found = plans.import_parsed(request, query, parsed)
    found = json.loads(encode(found))
    lines = [f"- {task['ref']}: {task['title']} ({task['state']})" for task in found["tasks"]]
    warnings = [f"Warning: {json.dumps(each)}" for each in found["warnings"]]
    done = "Would import" if given.dry_run else "Unchanged" if found["unchanged"] else "Imported"
    text = f"{done}: plan {found['plan']['ref']} with {len(lines)} tasks."
    return Reply(join(text, "\n".join(warnings)), found, shown="\n".join(lines))


READS = (
    Tool(get_task, tasks.tasks_get, "Read a task", is_read_only=True),
    Tool(list_tasks, tasks.tasks_list, "List tasks", is_read_only=True),
    Tool(get_plan_forecast, plans.plans_get_forecast, "Read a plan's forecast", is_read_only=True),
    Tool(list_budgets, budgets.budgets_list, "List budgets", is_read_only=True),
)
IMPORT = Tool(import_plan, plans.plans_create, "Import a plan", is_idempotent=True)
CREATE = Tool(create_task, tasks.tasks_create, "Create a task")
