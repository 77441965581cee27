"""Read the YAML front matter of a plan in Markdown (pure)."""

import re
from collections.abc import Sequence
from typing import Any

from ledger.errors import Invalid
from ledger.planfile.canonical import DEFAULTS
from ledger.planfile.fences import mask_fences
from ledger.planfile.model import PLAN_REF, PRIORITIES
from ledger.planfile.values import read_front_values

FRONT = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.S | re.M)
NUMBERED = re.compile(r"([0-9][0-9A-Za-z.]*)-([0-9][0-9A-Za-z.]*)(?:-.*)?")
PLAN_ATTRIBUTES = ("ref", "title", "order", "not_before", "exclusive_files", "budget", *DEFAULTS)
RULE = "---"
KEY = re.compile(r"[a-z_]{1,40}:")
ONE_PLAN = "Import each plan from a file of its own."
OWN_KEY = re.compile(r"^(?:ref|phase|plan|order|needs|depends_on|agent|max_attempts)[ \t]*:", re.M)


def split_front_matter(text: str) -> tuple[str, str]:
    front = FRONT.match(text)
    return (front[1], text[front.end() :]) if front else ("", text)


def names_plan(front: str) -> bool:
    return bool(OWN_KEY.search(front))


def refuse_second_plan(lines: Sequence[str], skipped: int) -> None:
    """Raise Invalid if another front matter with a plan's ref begins further down."""
    fenced = mask_fences(lines) if RULE in lines else ()
    opened = -1
    for n, line in enumerate(lines if fenced else ()):
        if line == RULE and not fenced[n]:
            opened = n
        elif opened >= 0 and not KEY.match(line):
            opened = -1
        elif opened >= 0 and line.startswith(("ref:", "plan:")):
            raise Invalid("", f"Line {skipped + opened + 1} begins a second plan. {ONE_PLAN}")


def read_front_matter(front: str) -> tuple[dict[str, Any], list[str]]:
    values, texts = read_front_values(front)
    if not isinstance(values, dict):
        raise Invalid("", "Write the front matter as 'name: value' lines.")
    named = (*PLAN_ATTRIBUTES, "objective", "wave")
    header = {name: values[name] for name in named if values.get(name) is not None}
    if isinstance(priority := header.get("priority"), str):
        header["priority"] = PRIORITIES.get(priority.strip().lower(), priority)
    phase = str(texts.get("phase", ""))
    if "ref" in texts or "plan" in texts:
        header["ref"] = str(texts.get("ref") or complete_plan_ref(str(texts["plan"]), phase))
    needs, warnings = [], []
    for name in ("needs", "depends_on"):
        value = texts.get(name) or []
        for need in [value] if isinstance(value, str) else value:
            text = str(need)
            ref = text.strip() if ":" in text else complete_plan_ref(text, phase)
            if ":" in ref or PLAN_REF.fullmatch(ref):
                needs.append(ref)
            else:
                warnings.append(f"Ignored the dependency '{text[:80]}': it is not a plan's ref.")
    return header | {"needs": needs}, warnings


def complete_plan_ref(text: str, phase: str) -> str:
    """Return a plan's full ref: `01` of phase `03-ids`, `03-01`, and `03-01-setup` are one plan.

    >>> complete_plan_ref("01", "03-ids"), complete_plan_ref("02-05-errors", "03-ids")
    ('03-01', '02-05')
    >>> complete_plan_ref("ids-01-setup", "ids")
    'ids-01'
    """
    text = text.strip().removesuffix(".md").removesuffix("-PLAN")
    if phase and text.startswith(f"{phase}-"):
        text = text[len(phase) + 1 :].partition("-")[0]
    elif numbered := NUMBERED.fullmatch(text):
        return f"{numbered[1]}-{numbered[2]}"
    number = re.match(r"[0-9][0-9A-Za-z.]*", phase)
    short = number[0] if number else re.sub(r"[^A-Za-z0-9.]+", ".", phase)
    return f"{short}-{text}" if short else text
