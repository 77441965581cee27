"""The recipes that the form offers (pure); `docs/standing-instructions.md` has the same five."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """Field values of a rule, and a sample that triggers it."""

    name: str
    label: str
    hint: str
    values: dict[str, str]
    sample: dict[str, Any] = field(default_factory=dict)


def written(path: str) -> dict[str, Any]:
    return {"type": "fs_write", "data": {"path": path, "tool": "Edit"}}


RECIPES = (
    Recipe(
        "tests",
        "Tests after changes",
        "after a write in src, run the tests",
        {
            "event": "signal",
            "signal": "fs_write",
            "match_field_0": "path",
            "match_op_0": "glob",
            "match_value_0": "src/**",
            "content": "Run the tests after changing code.",
            "expect": "signal",
            "expect_type": "fs_command",
            "expect_field_0": "line",
            "expect_value_0": "make test",
            "once_per": "trigger",
            "hold_stop": "on",
        },
        written("src/invoices/render.py"),
    ),
    Recipe(
        "changelog",
        "Changelog after a fix",
        "a fix needs an entry",
        {
            "event": "task_claimed",
            "task_type": "fix",
            "content": "Add an entry to CHANGELOG.md for this fix.",
            "expect": "signal",
            "expect_type": "fs_write",
            "expect_field_0": "path",
            "expect_value_0": "CHANGELOG.md",
            "once_per": "attempt",
            "hold_stop": "on",
        },
        {"event": "task_claimed", "type": "fix"},
    ),
    Recipe(
        "checklist",
        "Checklist before stopping",
        "go through it, say what is open",
        {
            "event": "session_start",
            "content": "Before you stop: the tests pass, nothing is left commented out, and you "
            "have said what is still open. Then run: tenfour signal checklist_done",
            "expect": "signal",
            "expect_type": "checklist_done",
            "once_per": "session",
            "max_retries": "20",
            "hold_stop": "on",
        },
        {"type": "session_start", "data": {"source": "startup"}},
    ),
    Recipe(
        "docs",
        "Docs with the API",
        "a changed schema, a changed page",
        {
            "event": "signal",
            "signal": "fs_write",
            "match_field_0": "path",
            "match_op_0": "glob",
            "match_value_0": "**/openapi.json",
            "content": "The API has changed. Update docs/api.md.",
            "expect": "signal",
            "expect_type": "fs_write",
            "expect_field_0": "path",
            "expect_value_0": "docs/api.md",
            "once_per": "attempt",
            "hold_stop": "on",
        },
        written("api/openapi.json"),
    ),
    Recipe(
        "status",
        "Say where you are",
        "every 15 min, in one line",
        {
            "event": "every",
            "minutes": "15",
            "content": "Say in one line what you are working on.",
            "expect": "ack",
            "once_per": "trigger",
            "max_retries": "1",
            "on_failed": "record",
        },
        {},
    ),
)
BY_NAME = {recipe.name: recipe for recipe in RECIPES}


def fill(values: dict[str, str], *, before: str, recipe: Recipe) -> dict[str, str]:
    """Return a form's values with those of a recipe, except where a person typed something."""
    # A value is untouched if it is empty or still what the recipe `before` put there.
    old = BY_NAME[before].values if before in BY_NAME else {}
    names = {*old, *recipe.values}
    filled = dict(values)
    for name in names:
        if values.get(name, "") in ("", old.get(name, DEFAULTS.get(name, ""))):
            filled[name] = recipe.values.get(name, DEFAULTS.get(name, ""))
    return filled


# the values of an empty form
DEFAULTS = {
    "event": "signal",
    "match_op_0": "is",
    "expect": "ack",
    "once_per": "trigger",
    "max_retries": "3",
    "on_failed": "escalate",
}
