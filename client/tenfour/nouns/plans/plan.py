"""`tenfour plan`: list, show, import, sync, rename, change, confirm, and moves of its state."""

from __future__ import annotations

from collections.abc import Iterator

from tenfour.client import Client
from tenfour.commands.display import Screen, describe_task_state
from tenfour.nouns.bulk import add_yes
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Column, Row, computed, identity, plain, state, time, whole
from tenfour.nouns.output.json_output import add_json_output
from tenfour.nouns.output.record import Layout
from tenfour.nouns.output.table import render_table
from tenfour.nouns.plans import plan_commands, plan_sync
from tenfour.nouns.plans.plan_commands import KIND
from tenfour.nouns.reading import Filter, add_id, add_json, make_action, make_list, make_show


def _progress(row: Row) -> str:
    counts = row["counts"]
    return f"{counts.get('done', 0)} of {row['tasks']}"


COLUMNS = (
    plain("ref", style="bold"),
    state(),
    plain("title", stretch=True),
    computed("done", _progress),
    plain("run"),
    time("updated_at"),
    identity(),
)
LAYOUT = Layout(
    Column("plan", lambda row, _: f"{row['plan']['ref']} {row['plan']['title']}".strip()),
    (
        state("plan.state"),
        plain("plan.run"),
        computed("done", lambda row: _progress(row["plan"])),
        computed("tasks", lambda row: _counts(row["plan"])),
        plain("plan.created_by.name", "imported by"),
        plain("plan.not_before", "not before"),
        plain("plan.exclusive_files", "exclusive files"),
        time("plan.created_at", "created"),
        time("plan.paused_at", "paused"),
        time("plan.aborted_at", "aborted"),
        time("plan.completed_at", "completed"),
        whole("plan.id"),
    ),
    (plain("plan.objective"),),
)
TASK_COLUMNS = (
    plain("ref", style="bold"),
    Column(
        "state",
        lambda row, _: describe_task_state(
            row["state"], row["blocked_reason"], row.get("not_before")
        ),
        "state",
    ),
    plain("agent"),
    plain("title", stretch=True),
    computed("attempts", lambda row: f"{row['attempts']} of {row['attempt_limit']}"),
    plain("needs", stretch=True),
)


def _counts(plan: Row) -> str:
    return ", ".join(f"{count} {state}" for state, count in plan["counts"].items() if count)


def describe_tasks(client: Client, row: Row, screen: Screen) -> Iterator[str]:
    """Yield the lines of a plan's tasks."""
    if row["tasks"]:
        yield from ("", screen.paint("Tasks", "bold")) if screen.tty else ("-- tasks",)
        yield from render_table(TASK_COLUMNS, row["tasks"], screen)


def add_status_arguments(parser: Parser) -> None:
    add_id(parser, KIND)
    add_json_output(parser, "print the plan and its tasks as JSON, as the API has them")


def add_forecast_arguments(parser: Parser) -> None:
    add_id(parser, KIND)
    add_json_output(parser, "print the forecast as JSON, as the API has it")


def add_title(parser: Parser) -> None:
    parser.add_argument("title", metavar="TITLE", help="the new title")


def make_change(verb: str, help: str) -> Verb:
    def add(parser: Parser) -> None:
        parser.set_defaults(verb=verb)
        add_id(parser, KIND)
        plan_commands.add_change_options(parser, verb)
        add_yes(parser)
        add_json(parser, "print the plan as JSON")

    return Verb(help, "plans:write", plan_commands.change_state, add)


NOUN = Noun(
    "plan",
    "Plans: tasks that depend on each other, known by a ref.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "tasks:read",
            Filter("state", "STATES", "active, paused, completed, aborted"),
            Filter("ref", "REF", "such as 03-01"),
            Filter("search", "TEXT", "a part of the title", "q"),
        ),
        "show": make_show(KIND, LAYOUT, "tasks:read", more=describe_tasks),
        "status": Verb(
            "Print a plan and a line for each of its tasks.",
            "tasks:read",
            plan_commands.status,
            add_status_arguments,
        ),
        "forecast": Verb(
            "Print when a plan will be done and what it will cost.",
            "tasks:read",
            plan_commands.forecast,
            add_forecast_arguments,
        ),
        "import": Verb(
            "Import a plan from a file, or update it.",
            "plans:write",
            plan_commands.import_plan,
            plan_commands.add_import_arguments,
        ),
        "sync": Verb(
            "Merge a plan's file, and tick in it what is done.",
            "plans:write",
            plan_sync.sync,
            plan_sync.add_sync_arguments,
        ),
        "pause": make_change("pause", "Start no further tasks of a plan."),
        "resume": make_change("resume", "Start a paused plan's tasks again."),
        "abort": make_change("abort", "Stop a plan; finished tasks stay finished."),
        "restart": make_change("restart", "Run a plan's unfinished tasks again."),
        "rename": make_action(
            KIND, "Change a plan's title.", "plans:write", plan_commands.rename, add=add_title
        ),
        "change": make_action(
            KIND,
            "Change a plan's start time or file exclusion.",
            "plans:write",
            plan_commands.change,
            add=plan_commands.add_change_arguments,
        ),
        "confirm": Verb(
            "Let agents run the commands that were found in a plan's text.",
            "escalations:resolve",
            plan_commands.confirm,
            plan_commands.add_confirm_arguments,
        ),
    },
)
