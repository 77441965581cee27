"""Read the form of a rule; what the ledger refuses becomes an error of its field."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dashboard.form_values import LARGEST, read_form_number, read_whole_number
from dashboard.standing_instructions.recipes import DEFAULTS
from ledger import agents
from ledger.agents import UnknownAgent
from ledger.errors import Invalid
from ledger.instructions import MATCH_SCALARS, Expect
from ledger.models import Plan, Project, StandingInstruction
from ledger.models.standing_instruction import Trigger
from ledger.standing_instructions.editing import On, RuleSpec
from ledger.values.text import normalize_newlines

POINTERS = {
    "on": "signal",
    "type": "signal",
    "match": "match",
    "plan": "plan",
    "interval_s": "minutes",
    "event": "event",
}


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One condition of the form: a field, a comparison and a value."""

    at: int
    field: str
    op: str
    value: str


@dataclass(slots=True)
class RuleForm:
    """The values of the form as they were typed, and what is wrong with them."""

    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    rows: int = 0  # the rows of conditions that the person added
    expect_rows: int = 0

    @property
    def match(self) -> list[ConditionRow]:
        return list(self.list_rows("match", self.rows))

    @property
    def expected(self) -> list[ConditionRow]:
        return list(self.list_rows("expect", self.expect_rows))

    def list_rows(self, prefix: str, least: int) -> Iterator[ConditionRow]:
        """Yield the rows that hold something, and at least `least` rows, up to the limit."""
        used = [at for at in range(MATCH_SCALARS) if self.values.get(f"{prefix}_field_{at}")]
        last = max([least - 1, *used, 0])
        for at in range(min(last + 1, MATCH_SCALARS)):
            yield ConditionRow(
                at,
                self.values.get(f"{prefix}_field_{at}", ""),
                self.values.get(f"{prefix}_op_{at}", "is"),
                self.values.get(f"{prefix}_value_{at}", ""),
            )

    def read(self, project: Project) -> RuleSpec | None:
        """Return the rule that the form states, or None with the errors noted."""
        try:
            return self.build_spec(project)
        except UnknownAgent as refusal:
            self.errors["agent"] = refusal.detail
        except Invalid as refusal:
            self.note(refusal)
        return None

    def build_spec(self, project: Project) -> RuleSpec:
        value = self.values.get
        name = value("agent", "")
        return RuleSpec(
            on=self.build_on(project),
            content=normalize_newlines(value("content", "")),
            expect=self.build_expect(),
            max_retries=read_number(value("max_retries", "3"), "/max_retries"),
            on_failed=value("on_failed", "escalate"),
            agent=agents.get_by_name(name, project=project) if name else None,
            once_per=value("once_per", "trigger"),
            hold_stop=bool(value("hold_stop")),
        )

    def build_on(self, project: Project) -> On:
        value, event = self.values.get, self.values.get("event", "")
        match = {
            row.field: {"glob": row.value} if row.op == "glob" else read_value(row.value)
            for row in self.match
            if row.field
        }
        match event:
            case Trigger.SIGNAL:
                return On(event=event, type=value("signal") or None, match=match)
            case Trigger.SESSION_START:
                return On(event=event, match=match)
            case Trigger.TASK_CLAIMED:
                plan = find_plan(project, value("plan", ""))
                return On(event=event, type=value("task_type") or None, plan=plan)
            case Trigger.EVERY:
                minutes = read_number(value("minutes", ""), "/on/interval_s")
                return On(event=event, interval_s=minutes * 60)
        return On(event=event)  # the ledger refuses it

    def build_expect(self) -> Expect | None:
        if self.values.get("expect") != "signal":
            return None
        match = {row.field: read_value(row.value) for row in self.expected if row.field}
        return Expect(self.values.get("expect_type", ""), match)

    def note(self, refusal: Invalid) -> None:
        first, *rest = refusal.more["errors"][0]["pointer"].strip("/").split("/")
        name = POINTERS.get(rest[0], "event") if first == "on" and rest else first
        if name == "expect":
            name = "expect_type"
        self.errors[POINTERS.get(name, name)] = refusal.detail


def find_plan(project: Project, ref: str) -> Plan | None:
    """Return the plan with this ref; raise Invalid for one that the project does not have."""
    if not ref:
        return None
    plan = Plan.objects.filter(project=project, ref=ref).first()
    if plan is None:
        raise Invalid("/on/plan", f"There is no plan {ref} in this project.")
    return plan


def read_number(text: str, pointer: str) -> int:
    number = read_form_number(text)
    if number is None:
        raise Invalid(pointer, f"Enter a whole number up to {LARGEST:,}.")
    return number


def read_value(text: str) -> Any:
    """Return a typed value: a number, true, false and null as such, all else as text.

    >>> [read_value(text) for text in ("make test", "3", "true", '"3"')]
    ['make test', 3, True, '3']
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_storable = not isinstance(value, float) or math.isfinite(value)
    return value if is_storable and not isinstance(value, (dict, list)) else text


def show_value(value: Any) -> str:
    """Return the text that `read_value` reads as this value."""
    if isinstance(value, str):
        return value if read_value(value) == value else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def empty_form() -> RuleForm:
    return RuleForm(dict(DEFAULTS), rows=1)


def posted_form(posted: Mapping[str, str]) -> RuleForm:
    values = {name: value.strip() if name != "content" else value for name, value in posted.items()}
    rows, expect_rows = (
        read_whole_number(values.get(name, "")) or 0 for name in ("rows", "expect_rows")
    )
    return RuleForm(values, rows=rows, expect_rows=expect_rows)


def form_of(row: StandingInstruction) -> RuleForm:
    values = {
        "event": row.event,
        "signal": row.signal_type or "",
        "task_type": row.task_type or "",
        "plan": row.plan.ref if row.plan else "",
        "minutes": str((row.interval_s or 0) // 60) if row.interval_s else "",
        "content": row.content,
        "expect": "signal" if row.expect_type else "ack",
        "expect_type": row.expect_type or "",
        "max_retries": str(row.max_retries),
        "on_failed": row.on_failed,
        "agent": row.agent.name if row.agent else "",
        "once_per": row.once_per,
        "hold_stop": "on" if row.hold_stop else "",
        "version": str(row.version),
    }
    for at, (name, value) in enumerate(row.match.items()):
        glob = value.get("glob") if isinstance(value, dict) else None
        values[f"match_field_{at}"] = name
        values[f"match_op_{at}"] = "is" if glob is None else "glob"
        values[f"match_value_{at}"] = show_value(value) if glob is None else glob
    for at, (name, value) in enumerate((row.expect_match or {}).items()):
        values[f"expect_field_{at}"] = name
        values[f"expect_value_{at}"] = show_value(value)
    return RuleForm(values)
