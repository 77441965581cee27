"""Schemas of plans."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, Field, StrictBool

from ledger.errors import Invalid
from ledger.models import Plan, PlanState
from ledger.planfile.model import MOST_TASKS, Became
from ledger.plans.editing import get_verify
from ledger.plans.identity import NEW
from ledger.schemas.shapes import AGENT_ID, AT, ID, Part, Shape, field
from ledger.schemas.shared import STATES, In, ListQuery
from ledger.states import EvidenceLevel, TaskState
from ledger.tasks.spec import TITLE_LENGTH


class PlanQuery(ListQuery):
    state: str = Field("", description=STATES)
    ref: str = Field("", description="the plan's ref, such as 03-01")
    q: str = Field("", max_length=200, description="text in the title")


class ImportQuery(Schema):
    mode: Literal["create", "merge", "replace"] = Field(
        "create", description="what to do if this plan already exists with different content"
    )
    dry_run: bool = Field(False, description="return what would change without changing it")
    register_: bool = Field(False, alias="register", description="register unknown agents")
    agent: str = Field("", description="the default agent for tasks that name none")
    ref: str = Field("", description="the plan's ref if the file names none, such as 03-01")
    allow_missing_needs: bool = Field(
        False,
        description="wait for plans and tasks that are not imported yet; for a file of Task "
        "Master, ignore needs that it lacks",
    )
    ticks: Literal["done", "proven"] = Field(
        "done",
        description="which boxes 'lines' says to tick: those of all done tasks, or only of those "
        "that are proven or accepted by a person",
    )
    tag: str = Field("", description="the tag to import from a tasks.json of Task Master")
    pairs: str = Field(
        "",
        max_length=20_000,
        description="which task of the file is which stored one, such as task-2=task-1,task-3=new; "
        "new alone: every unclear one is new",
    )
    budget: str = Field(
        "",
        max_length=64,
        description="how much its tasks may use together, such as '500000 tokens' or '5 USD'; "
        "sets the plan's budget in total, which only a person changes once it is there",
    )
    at_limit: Literal["ask", "stop"] = Field(
        "ask", description="with 'budget', what happens when it is used up: see budgets"
    )


class PlanPatch(In, example={"title": "Planner ids, second version"}):
    title: str | None = Field(None, max_length=TITLE_LENGTH, description="the new title")
    evidence: EvidenceLevel | None = Field(
        None,
        description="what is asked for before its tasks are done: record, ask, or require; a task "
        "that says it itself keeps that",
    )
    not_before: AwareDatetime | None = Field(
        None,
        description="none of its tasks starts before this time, at most 366 days ahead; a time "
        "that has passed ends the wait",
    )
    exclusive_files: StrictBool | None = Field(
        None,
        description="true to run no two of its tasks at once that name the same files; false to "
        "run them at once, also in a project whose files are exclusive",
    )


class PlanReasonIn(In, example={"reason": "the branch is frozen"}):
    reason: str = Field("", max_length=2000, description="why, for the journal")


class ConfirmIn(In, example={"commands": {"03-01:task-3": "npm test -- PlannerId"}}):
    commands: dict[str, str] = Field(
        min_length=1,
        max_length=MOST_TASKS,
        description="task ref to command, each exactly as in the task's proposed_command",
    )


class CreatorOut(Part):
    type: str = field("token, user, or system", "token", source="created_by_type")
    name: str = field("the name of the token or person", "ci", source="created_by_name")


class PlanOut(Shape):
    id: UUID | None = field("null if a dry run would create the plan", ID, source="pk")
    ref: str = field("the plan's ref, such as 03-01", "03-01")
    title: str = field("the plan's title", "Planner ids")
    objective: str = field("what the plan is for", "Ids that can't be invalid")
    evidence: EvidenceLevel | None = field(
        "what is asked for before its tasks are done: record, ask, or require; null if "
        "its project says it"
    )
    not_before: datetime | None = field("the time before which none of its tasks starts, or null")
    exclusive_files: bool = field("true if tasks that name the same files don't run at once")
    state: PlanState = field("active, paused, completed, or aborted", "active")
    run: int = field("1 for the first run; a restart adds 1", 1)
    tasks: int = field("number of tasks", 5, given=True)
    counts: dict[str, int] = field(
        "number of tasks in each state",
        {
            "queued": 1,
            "running": 1,
            "retry": 0,
            "blocked": 1,
            "escalated": 0,
            "done": 2,
            "failed": 0,
            "skipped": 0,
            "aborted": 0,
        },
        given=True,
    )
    created_by: CreatorOut = field("who imported it", source=".")
    created_at: datetime = field("when it was created")
    updated_at: datetime = field("when it was last changed")
    paused_at: datetime | None = field("when it was paused; null while it is active")
    aborted_at: datetime | None = field("when it was aborted, or null")
    completed_at: datetime | None = field("when its last task ended, or null")
    file_agreed_at: datetime | None = field(
        "when an import last found no open box of a task that is done, or null"
    )
    version: int = field('changes with every update; the ETag is "v<version>"', 1)


class PlanTaskOut(Shape, keyed=True):
    id: UUID | None = field("null if a dry run would create the task", ID)
    ref: str = field("the task's ref, such as 03-01:task-3", "03-01:task-3")
    run: int = field("the run that the task belongs to", 1)
    title: str = field("the task's title", "Create InvalidPlannerIdError")
    type: str = field("a name for the kind of work", "auto")
    agent: str = field("the agent's name", "coder", source="agent_name")
    agent_id: UUID = field("the agent's id", AGENT_ID)
    pool: str | None = field(
        "the pool that it was sent to, or null",
        None,
        # a row of a dry run comes without it
        source=lambda row: row.get("pool_name"),
    )
    state: TaskState = field("the task's state", "blocked")
    blocked_reason: str | None = field(
        "why it is blocked, such as dependency or breaker_open", "dependency"
    )
    not_before: datetime | None = field("the time before which no attempt starts, or null")
    priority: int = field("higher goes first; 0 is usual")
    attempts: int = field("number of the latest attempt")
    attempt_limit: int = field("the number of the last attempt that may run", 3)
    retry_count: int = field("failures in this round that used up an attempt")
    needs: list[str] = field(
        "refs of needed tasks and plans, including ones not imported yet",
        ["03-01:task-2", "02-05:task-4"],
        source="need_refs",
    )
    proposed_command: str | None = field(
        "a command found in prose; agents don't run it until a person confirms it",
        source=lambda row: get_verify(row["payload"]).get("proposed_command"),
    )


class PlanWithTasksOut(Shape):
    plan: PlanOut = field("the plan")
    tasks: list[PlanTaskOut] = field("for an agent's token, only that agent's tasks")


class EndRangeOut(Part):
    low: datetime = field("one plan in ten ends earlier", AT)
    median: datetime = field("half of the plans end by then", AT)
    high: datetime = field("one plan in ten ends later", AT)


class CostRangeOut(Part):
    low: float = field("one plan in ten costs less", 3.1)
    median: float = field("half of the plans cost at most this", 4.4)
    high: float = field("one plan in ten costs more", 6.9)


class CalibrationOut(Part):
    plans: int = field("plans of the project that have ended or should have", 34)
    inside: int = field("those that ended inside the interval made at a quarter of them", 28)
    share: float | None = field("the second as a share of the first; null below 20 plans", 0.82)


class PlanForecastOut(Shape):
    plan: UUID = field("the plan's id", ID, given=True)
    made_at: datetime | None = field("when the clock made it; null without one", AT)
    reason: str | None = field(
        "why there is no interval: few_cases, few_answers, agent_paused, stuck, not_made, or "
        "not_under_way; null with an interval",
        None,
    )
    sentence: str | None = field("the reason in words; null with an interval", None)
    cases: int = field("the least number of attempts of the past that a task's figures rest on", 86)
    ends_at: EndRangeOut | None = field("when the plan will be done")
    cost: CostRangeOut | None = field("what the whole run will cost; null with too few reports")
    cost_unit: str = field("usd or tokens", "usd")
    spent: float = field("the cost so far", 1.9)
    calibration: CalibrationOut = field("how often such forecasts were right")


class DiffOut(Part):
    added: list[str] = field("refs of new tasks", ["03-01:task-3"])
    changed: dict[str, list[str]] = field("ref to changed fields")
    same: list[str] = field("refs of tasks that stay as they are")
    untouched: list[str] = field("differ, but have started or are over")
    left: list[str] = field("not in the file, but kept")
    aborted: list[str] = field("refs of tasks that are aborted because the file lacks them")


class MatchOut(Part):
    ref: str = field("the stored task's ref", "03-01:task-1")
    file_ref: str = field("the ref that the file alone would give the task", "03-01:task-2")
    title: str = field("the task's title in the file", "Create the error")
    stored_title: str = field("the task's title before the import", "Create the error")
    reason: str = field("why they are the same task", "same text")
    is_guess: bool = field("true if only a similar text says so")


class BoxOut(Part):
    offset: int = field("the place of its first byte in the file", 104)
    old: str = field("the box as it is, such as [ ]", "[ ]")
    new: str = field("the box once it is ticked, such as [x]", "[x]")


class FileLineOut(Part):
    line: int = field("the line's number", 5)
    became: Became = field(
        "task, done (the file says so), step or check (of a task), text (of a task), or left_out",
        "task",
    )
    ref: str | None = field("the task that it became or belongs to, or null", "03-01:task-3")
    text: str = field("the item without its box", "Create InvalidPlannerIdError")
    note: str = field("why it was left out")
    box: BoxOut | None = field("its open box, or null")
    tick: bool = field("true if the box is open and its task is done", True)


class PreviewRowOut(Part):
    ref: str = field("the task's ref; empty for a line that is no task")
    name: str = field("what the file calls the task, such as 1.2")
    title: str = field("the task's title, or the text of the line")
    level: int = field("depth in the tree of tasks and their parts")
    line: int = field("line of the file; 0 if the format has none")
    source: str = field("the text of this line")
    change: str = field(
        "added, changed, same, untouched, or done for a task that the file has ticked"
    )
    agent: str = field("the agent's name")
    after: list[str] = field("names of the tasks that it needs")
    needs: list[str] = field("their refs")
    criteria: list[str] = field("when the task is done")
    warnings: list[str] = field("what the reader had to guess on this line")
    command: str = field("the command that checks the work")
    is_proposed: bool = field("true if the command runs only after confirmation")


class ImportedOut(PlanWithTasksOut):
    warnings: list[str] = field("what the reader had to guess")
    diff: DiffOut = field("what the import changed, by task ref")
    matches: list[MatchOut] = field(
        "tasks of the file that are stored under another ref, or were guessed"
    )
    ticked: list[str] = field(
        "refs of waiting tasks that are done now because the file marks them as done"
    )
    lines: list[FileLineOut] = field(
        "what became of each line of a Markdown file that looks like work"
    )
    preview: list[PreviewRowOut] = field(
        "of a dry run: the file's tasks in its order, each with its line", []
    )
    unchanged: bool = field("true if this content was imported before")
    dry_run: bool = field("true if nothing was changed")


def parse_pairs(text: str) -> dict[str, str]:
    """Return the pairs in `task-2=task-1,task-3=new`; raise Invalid for anything else."""
    pairs = {}
    for each in filter(None, map(str.strip, text.split(","))):
        file_ref, sign, ref = each.partition("=")
        if each != NEW and not (sign and file_ref.strip() and ref.strip()):
            raise Invalid(
                "/pairs", f"'{each[:80]}' is not a pair. Use task-2=task-1, or task-2=new."
            )
        pairs[file_ref.strip()] = ref.strip() or NEW
    return pairs


def plan_out(plan: Plan, counts: dict[str, int]) -> dict[str, Any]:
    return PlanOut.write(plan, tasks=sum(counts.values()), counts=counts)
