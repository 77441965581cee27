"""Schemas of plans."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.errors import Invalid
from ledger.models import Plan, PlanState
from ledger.planfile.model import MOST_TASKS, Became
from ledger.plans.editing import get_verify
from ledger.plans.identity import NEW
from ledger.schemas.shapes import AGENT_ID, AT, ID
from ledger.schemas.shared import STATES, In, Listed, ListQuery
from ledger.sql import Row
from ledger.states import EvidenceLevel, TaskState
from ledger.tasks.spec import TITLE_LENGTH

PLAN: dict[str, Any] = {
    "id": ID,
    "ref": "03-01",
    "title": "Planner ids",
    "objective": "Ids that can't be invalid",
    "evidence": None,
    "state": "active",
    "run": 1,
    "tasks": 5,
    "counts": {
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
    "created_by": {"type": "token", "name": "ci"},
    "created_at": AT,
    "updated_at": AT,
    "paused_at": None,
    "aborted_at": None,
    "completed_at": None,
    "file_agreed_at": None,
    "version": 1,
}

PLAN_TASK: dict[str, Any] = {
    "id": ID,
    "ref": "03-01:task-3",
    "run": 1,
    "title": "Create InvalidPlannerIdError",
    "type": "auto",
    "agent": "coder",
    "agent_id": AGENT_ID,
    "state": "blocked",
    "blocked_reason": "dependency",
    "priority": 0,
    "attempts": 0,
    "attempt_limit": 3,
    "retry_count": 0,
    "needs": ["03-01:task-2", "02-05:task-4"],
    "proposed_command": None,
}


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


class PlanPatch(In):
    title: str | None = Field(None, max_length=TITLE_LENGTH, description="the new title")
    evidence: EvidenceLevel | None = Field(
        None,
        description="what is asked for before its tasks are done: record, ask, or require; a task "
        "that says it itself keeps that",
    )

    model_config = ConfigDict(
        json_schema_extra={"example": {"title": "Planner ids, second version"}}
    )


class PlanReasonIn(In):
    reason: str = Field("", max_length=2000, description="why, for the journal")

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "the branch is frozen"}})


class ConfirmIn(In):
    commands: dict[str, str] = Field(
        min_length=1,
        max_length=MOST_TASKS,
        description="task ref to command, each exactly as in the task's proposed_command",
    )

    model_config = ConfigDict(
        json_schema_extra={"example": {"commands": {"03-01:task-3": "npm test -- PlannerId"}}},
    )


class CreatorOut(Schema):
    type: str = Field(description="token, user, or system")
    name: str = Field(description="the name of the token or person")


class PlanOut(Schema):
    id: UUID | None = Field(description="null if a dry run would create the plan")
    ref: str = Field(description="the plan's ref, such as 03-01")
    title: str = Field(description="the plan's title")
    objective: str = Field(description="what the plan is for")
    evidence: EvidenceLevel | None = Field(
        description="what is asked for before its tasks are done: record, ask, or require; null if "
        "its project says it"
    )
    state: PlanState = Field(description="active, paused, completed, or aborted")
    run: int = Field(description="1 for the first run; a restart adds 1")
    tasks: int = Field(description="number of tasks")
    counts: dict[str, int] = Field(description="number of tasks in each state")
    created_by: CreatorOut = Field(description="who imported it")
    created_at: datetime = Field(description="when it was created")
    updated_at: datetime = Field(description="when it was last changed")
    paused_at: datetime | None = Field(description="when it was paused; null while it is active")
    aborted_at: datetime | None = Field(description="when it was aborted, or null")
    completed_at: datetime | None = Field(description="when its last task ended, or null")
    file_agreed_at: datetime | None = Field(
        description="when an import last found no open box of a task that is done, or null"
    )
    version: int = Field(description='changes with every update; the ETag is "v<version>"')

    model_config = ConfigDict(json_schema_extra={"example": PLAN})


class PlanTaskOut(Schema):
    id: UUID | None = Field(description="null if a dry run would create the task")
    ref: str = Field(description="the task's ref, such as 03-01:task-3")
    run: int = Field(description="the run that the task belongs to")
    title: str = Field(description="the task's title")
    type: str = Field(description="a name for the kind of work")
    agent: str = Field(description="the agent's name")
    agent_id: UUID = Field(description="the agent's id")
    state: TaskState = Field(description="the task's state")
    blocked_reason: str | None = Field(
        description="why it is blocked, such as dependency or breaker_open"
    )
    priority: int = Field(description="higher goes first; 0 is usual")
    attempts: int = Field(description="number of the latest attempt")
    attempt_limit: int = Field(description="the number of the last attempt that may run")
    retry_count: int = Field(description="failures in this round that used up an attempt")
    needs: list[str] = Field(
        description="refs of needed tasks and plans, including ones not imported yet"
    )
    proposed_command: str | None = Field(
        description="a command found in prose; agents don't run it until a person confirms it"
    )

    model_config = ConfigDict(json_schema_extra={"example": PLAN_TASK})


class PlanWithTasksOut(Schema):
    plan: PlanOut = Field(description="the plan")
    tasks: list[PlanTaskOut] = Field(description="for an agent's token, only that agent's tasks")

    model_config = ConfigDict(json_schema_extra={"example": {"plan": PLAN, "tasks": [PLAN_TASK]}})


class DiffOut(Schema):
    added: list[str] = Field(description="refs of new tasks")
    changed: dict[str, list[str]] = Field(description="ref to changed fields")
    same: list[str] = Field(description="refs of tasks that stay as they are")
    untouched: list[str] = Field(description="differ, but have started or are over")
    left: list[str] = Field(description="not in the file, but kept")
    aborted: list[str] = Field(
        description="refs of tasks that are aborted because the file lacks them"
    )


class MatchOut(Schema):
    ref: str = Field(description="the stored task's ref")
    file_ref: str = Field(description="the ref that the file alone would give the task")
    title: str = Field(description="the task's title in the file")
    stored_title: str = Field(description="the task's title before the import")
    reason: str = Field(description="why they are the same task")
    is_guess: bool = Field(description="true if only a similar text says so")


class BoxOut(Schema):
    offset: int = Field(description="the place of its first byte in the file")
    old: str = Field(description="the box as it is, such as [ ]")
    new: str = Field(description="the box once it is ticked, such as [x]")


class FileLineOut(Schema):
    line: int = Field(description="the line's number")
    became: Became = Field(
        description="task, done (the file says so), step or check (of a task), text (of a task), "
        "or left_out"
    )
    ref: str | None = Field(description="the task that it became or belongs to, or null")
    text: str = Field(description="the item without its box")
    note: str = Field(description="why it was left out")
    box: BoxOut | None = Field(description="its open box, or null")
    tick: bool = Field(description="true if the box is open and its task is done")


class PreviewRowOut(Schema):
    ref: str = Field(description="the task's ref; empty for a line that is no task")
    name: str = Field(description="what the file calls the task, such as 1.2")
    title: str = Field(description="the task's title, or the text of the line")
    level: int = Field(description="depth in the tree of tasks and their parts")
    line: int = Field(description="line of the file; 0 if the format has none")
    source: str = Field(description="the text of this line")
    change: str = Field(
        description="added, changed, same, untouched, or done for a task that the file has ticked"
    )
    agent: str = Field(description="the agent's name")
    after: list[str] = Field(description="names of the tasks that it needs")
    needs: list[str] = Field(description="their refs")
    criteria: list[str] = Field(description="when the task is done")
    warnings: list[str] = Field(description="what the reader had to guess on this line")
    command: str = Field(description="the command that checks the work")
    is_proposed: bool = Field(description="true if the command runs only after confirmation")


class ImportedOut(PlanWithTasksOut):
    warnings: list[str] = Field(description="what the reader had to guess")
    diff: DiffOut = Field(description="what the import changed, by task ref")
    matches: list[MatchOut] = Field(
        description="tasks of the file that are stored under another ref, or were guessed"
    )
    ticked: list[str] = Field(
        description="refs of waiting tasks that are done now because the file marks them as done"
    )
    lines: list[FileLineOut] = Field(
        description="what became of each line of a Markdown file that looks like work"
    )
    preview: list[PreviewRowOut] = Field(
        description="of a dry run: the file's tasks in its order, each with its line"
    )
    unchanged: bool = Field(description="true if this content was imported before")
    dry_run: bool = Field(description="true if nothing was changed")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "plan": PLAN,
                "tasks": [PLAN_TASK],
                "warnings": [],
                "diff": {
                    "added": ["03-01:task-3"],
                    "changed": {},
                    "same": [],
                    "untouched": [],
                    "left": [],
                    "aborted": [],
                },
                "matches": [
                    {
                        "ref": "03-01:task-1",
                        "file_ref": "03-01:task-2",
                        "title": "Create the error",
                        "stored_title": "Create the error",
                        "reason": "same text",
                        "is_guess": False,
                    }
                ],
                "ticked": [],
                "lines": [
                    {
                        "line": 5,
                        "became": "task",
                        "ref": "03-01:task-3",
                        "text": "Create InvalidPlannerIdError",
                        "note": "",
                        "box": {"offset": 104, "old": "[ ]", "new": "[x]"},
                        "tick": True,
                    }
                ],
                "preview": [],
                "unchanged": False,
                "dry_run": False,
            }
        }
    )


class PlanList(Listed):
    data: list[PlanOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [PLAN], "next_cursor": None, "has_more": False}}
    )


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
    """Return the JSON object for a plan and its number of tasks in each state."""
    return {
        "id": plan.pk,
        "ref": plan.ref,
        "title": plan.title,
        "objective": plan.objective,
        "evidence": plan.evidence,
        "state": plan.state,
        "run": plan.run,
        "tasks": sum(counts.values()),
        "counts": counts,
        "created_by": {"type": plan.created_by_type, "name": plan.created_by_name},
        "created_at": plan.created_at,
        "updated_at": plan.updated_at,
        "paused_at": plan.paused_at,
        "aborted_at": plan.aborted_at,
        "completed_at": plan.completed_at,
        "file_agreed_at": plan.file_agreed_at,
        "version": plan.version,
    }


def plan_task_out(row: Row) -> dict[str, Any]:
    """Return the JSON object for a task's row in its plan."""
    return {
        "id": row["id"],
        "ref": row["ref"],
        "run": row["run"],
        "title": row["title"],
        "type": row["type"],
        "agent": row["agent_name"],
        "agent_id": row["agent_id"],
        "state": row["state"],
        "blocked_reason": row["blocked_reason"],
        "priority": row["priority"],
        "attempts": row["attempts"],
        "attempt_limit": row["attempt_limit"],
        "retry_count": row["retry_count"],
        "needs": row["need_refs"],
        "proposed_command": get_verify(row["payload"]).get("proposed_command"),
    }
