"""Try a rule on a sample: what would be sent, without sending or storing anything."""

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger.database import sql
from ledger.models.standing_instruction import Trigger
from ledger.standing_instructions.editing import RuleSpec, check_spec
from ledger.standing_instructions.firing import EXACT, NOT_ITS_ANSWER, PATH_FITS
from ledger.standing_instructions.matching import PATH, comparable, normalize_path
from ledger.states import prefixed
from ledger.values.text import truncate

ACTUAL_LENGTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Something that could trigger a rule: a signal with its data, or a claimed task."""

    event: str = Trigger.SIGNAL.value
    type: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    plan_id: UUID | None = None
    agent_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a rule, and whether the sample meets it."""

    field: str
    expected: Any
    actual: Any
    holds: bool
    text: str


@dataclass(frozen=True, slots=True)
class Trial:
    conditions: list[Condition]
    texts: list[str]

    @property
    def fires(self) -> bool:
        return all(each.holds for each in self.conditions)


# the conditions of `firing.signal_rules`, over the columns of a rule that may not be stored
CHECK = f"""select {EXACT} as exact, {PATH_FITS} as path_fits,
    {NOT_ITS_ANSWER} as not_its_answer
from (select %(match_exact)s::jsonb as match_exact, %(path_pattern)s::text as path_pattern,
    %(expect_type)s::text as expect_type, %(expect_match)s::jsonb as expect_match) r"""


def try_rule(spec: RuleSpec, sample: Sample, *, project_id: UUID) -> Trial:
    columns = check_spec(spec, project_id=project_id)
    conditions = [check_event(columns, sample)]
    if columns["agent"] and sample.agent_id:
        name = columns["agent"].name
        holds = sample.agent_id == columns["agent"].id
        conditions.append(condition("agent", name, name if holds else "another agent", holds))
    if columns["event"] == Trigger.TASK_CLAIMED:
        conditions += check_task(columns, sample)
    elif columns["signal_type"]:
        conditions += check_signal(columns, sample)
    texts = [prefixed(columns["content"], count) for count in range(columns["max_retries"] + 1)]
    return Trial(conditions, texts[:4])


def check_event(columns: dict[str, Any], sample: Sample) -> Condition:
    expected = columns["event"]
    if expected == Trigger.SESSION_START:
        expected = Trigger.SIGNAL.value
    if expected == Trigger.EVERY:
        text = f"the clock sends it every {columns['interval_s']} seconds"
        return Condition("event", expected, sample.event, True, text)
    return condition("event", expected, sample.event, expected == sample.event)


def check_task(columns: dict[str, Any], sample: Sample) -> list[Condition]:
    found = []
    if columns["task_type"] is not None:
        expected = columns["task_type"]
        found.append(condition("type", expected, sample.type, expected == sample.type))
    if columns["plan"]:
        plan = columns["plan"]
        holds = plan.id == sample.plan_id
        found.append(condition("plan", plan.ref, plan.ref if holds else "another plan", holds))
    return found


def check_signal(columns: dict[str, Any], sample: Sample) -> list[Condition]:
    """Return the conditions on a signal, as the statement that sends rules decides them."""
    expected_type = columns["signal_type"]
    found = [condition("type", expected_type, sample.type, expected_type == sample.type)]
    for name, expected in columns["match"].items():
        glob = expected["glob"] if isinstance(expected, dict) else None
        row = check_row(columns, sample, name if glob is None else "", glob is not None)
        actual = comparable(sample.data).get(name)
        holds = bool(row["path_fits"] if glob is not None else row["exact"])
        found.append(condition(name, expected, actual, holds, glob=glob))
    if not check_row(columns, sample, "", False)["not_its_answer"]:
        text = "the signal is what the rule expects, so it does not trigger it"
        found.append(Condition("expect", columns["expect_match"], sample.data, False, text))
    return found


def check_row(columns: dict[str, Any], sample: Sample, name: str, with_path: bool) -> sql.Row:
    exact = {name: columns["match_exact"][name]} if name else {}
    expect = columns["expect_match"]
    return sql.run(
        CHECK,
        type=sample.type,
        data=Jsonb(comparable(sample.data)),
        path=normalize_path(sample.data.get(PATH), folder=sample.data.get("cwd")),
        match_exact=Jsonb(exact),
        path_pattern=columns["path_pattern"] if with_path else None,
        expect_type=columns["expect_type"],
        expect_match=None if expect is None else Jsonb(expect),
    )[0]


def condition(
    field: str, expected: Any, actual: Any, holds: bool, *, glob: str | None = None
) -> Condition:
    shown = truncate(shown_value(actual), ACTUAL_LENGTH)
    if actual is None:
        text = f"{field} is missing"
    elif glob is not None:
        text = f"{field} {shown} is {'' if holds else 'not '}in {glob}"
    elif holds:
        text = f"{field} is {shown}"
    else:
        text = f"{field} is {shown}, not {shown_value(expected)}"
    return Condition(field, expected, actual, holds, text)


def shown_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
