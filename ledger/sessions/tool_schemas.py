"""Define the arguments of the eight ledger tools, and describe them as JSON Schema (pure)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

DESCRIPTION_LENGTH, NOTE_LENGTH = 2000, 4000

Order = Annotated[StrictInt, Field(ge=1, description="a task's position in the list, from 1")]
Index = Annotated[StrictInt, Field(ge=0, description="a message's index in the batch, from 0")]
Description = Annotated[str, Field(min_length=1, max_length=DESCRIPTION_LENGTH)]
Note = Annotated[str, Field(min_length=1, max_length=NOTE_LENGTH)]


class Arguments(BaseModel):
    """The arguments of a tool; unknown ones are refused, because most of them are typos."""

    model_config = ConfigDict(extra="forbid")


class InsertTask(Arguments):
    """Add a task to the session's list. The tasks behind it move back by one."""

    after_task_order: StrictInt = Field(
        ge=0, description="the order of the task that it follows; 0 puts it first"
    )
    task_description: Description = Field(description="what is to be done, in the user's words")


class UpdateTask(Arguments):
    """Change the state or the description of a task."""

    task_order: Order
    task_status: Literal["pending", "running", "success", "failed", "dropped"] | None = Field(
        None, description="the new state, 'dropped' if it is no longer wanted; null leaves it"
    )
    task_description: Description | None = Field(
        None, description="the new description, if the user changed what is wanted; null leaves it"
    )


class AppendMessagesToTask(Arguments):
    """Link a range of messages to a task, which is running from then on.

    A finished task takes no messages: set it to running first.
    """

    task_order: Order
    message_id_range: Annotated[list[Index], Field(min_length=2, max_length=2)] = Field(
        description="the first and the last message, both included"
    )


class AppendMessagesToPlanningSection(Arguments):
    """Keep messages that are about the plan as a whole, and about none of the tasks."""

    message_ids: list[Index] = Field(max_length=200, description="the messages")


class AppendTaskProgress(Arguments):
    """Note what was achieved in a task. A finished task takes no notes."""

    task_order: Order
    progress: Note = Field(description="one fact, such as a decision, a file or a result")


class SubmitUserPreference(Arguments):
    """Keep a wish of the user that holds beyond a single task."""

    preference: Note = Field(description="the wish, as one sentence")


class Finish(Arguments):
    """Say that the batch is done. No further response is needed."""


class ReportThinking(Arguments):
    """Write down a thought before acting. Nothing is stored."""

    thinking: str = Field(max_length=20_000, description="the thought")


TOOLS: dict[str, type[Arguments]] = {
    "insert_task": InsertTask,
    "update_task": UpdateTask,
    "append_messages_to_task": AppendMessagesToTask,
    "append_messages_to_planning_section": AppendMessagesToPlanningSection,
    "append_task_progress": AppendTaskProgress,
    "submit_user_preference": SubmitUserPreference,
    "finish": Finish,
    "report_thinking": ReportThinking,
}


def describe_tools() -> list[dict[str, Any]]:
    """Return each tool's name, description and parameters as JSON Schema.

    >>> [tool["name"] for tool in describe_tools()][:2]
    ['insert_task', 'update_task']
    """
    return [
        {
            "name": name,
            "description": " ".join((kind.__doc__ or "").split()),
            "parameters": schema_of(kind),
        }
        for name, kind in TOOLS.items()
    ]


def schema_of(kind: type[Arguments]) -> dict[str, Any]:
    schema = kind.model_json_schema()
    for noise in ("title", "description"):
        schema.pop(noise, None)
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
    return {"type": "object", "properties": {}} | schema


def describe_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = "/".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
