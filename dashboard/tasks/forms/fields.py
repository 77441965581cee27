"""The fields that forms of tasks share: a payload as JSON, and a refusal beside its field."""

import json
import math
import re
from typing import Any

from django import forms

from dashboard.lists.known_names import list_agents
from ledger.errors import Invalid, PayloadTooLarge, Refusal
from ledger.models import Project
from ledger.schemas.budgets import BudgetIn
from ledger.tasks.spec import MAX_ATTEMPTS
from ledger.values.text import truncate
from retries.budgets.amounts import parse_amount

AGENTS_LISTED = 200
NO_BUDGET = "Your role can’t set a budget. Leave it empty."

# NUL and lone surrogates, in JSON that escapes only what it must
UNSTORABLE = re.compile(r"[\ud800-\udfff]|(?<!\\)(?:\\\\)*+\\u0000")


def list_known_agents(project: Project | None) -> list[str]:
    return list(dict.fromkeys(list_agents(project)))[:AGENTS_LISTED]


def box(kind: type[forms.Field], label: str, **attributes: Any) -> Any:
    """Return an optional field in one line of text; `attributes` are those of its input."""
    own = {"class": "input", "autocomplete": "off", "spellcheck": "false"}
    return kind(label=label, required=False, widget=forms.TextInput(attrs=own | attributes))


class TermsForm(forms.Form):
    """The agent of a task and its limits, which the API's schema or the ledger checks."""

    agent = box(forms.CharField, "Agent or pool", list="task-agents", maxlength=64)
    max_attempts = box(
        forms.IntegerField, "Attempts in a round", type="number", min=1, max=MAX_ATTEMPTS
    )
    not_before = box(forms.DateTimeField, "Not before", type="datetime-local")
    budget = box(forms.CharField, "Budget", placeholder="500000 tokens or 5 USD", maxlength=64)


def read_budget(text: str) -> BudgetIn:
    amount = parse_amount(text, pointer="/budget")
    number = int(amount.number) if amount.unit == "tokens" else float(amount.number)
    return BudgetIn.model_validate({amount.unit: number})


class PayloadField(forms.CharField):
    """A payload as JSON, with the rules of a body of the API; an empty text is none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(strip=False, **options)

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        return parse_payload(text) if text.strip() or self.required else None


def parse_payload(text: str) -> Any:
    """Return the value of a JSON text; raise ValidationError with a sentence."""
    try:
        payload = json.loads(
            text,
            parse_constant=refuse_constant,
            parse_float=read_finite,
            object_pairs_hook=build_object,
        )
        is_storable = not UNSTORABLE.search(json.dumps(payload, ensure_ascii=False))
    except (ValueError, RecursionError) as error:
        raise forms.ValidationError(describe_problem(error)) from error
    if not is_storable:
        raise forms.ValidationError("This has a character that Tenfour can’t store.")
    return payload


def format_payload(payload: Any) -> str:
    return json.dumps(payload, ensure_ascii=False, indent=2)


class RepeatedKey(ValueError):
    pass


def describe_problem(error: Exception) -> str:
    """Return what is wrong with a text that is no JSON.

    >>> describe_problem(json.JSONDecodeError("Expecting value", "{", 1))
    'This is not JSON: Expecting value, line 1 column 2.'
    """
    if isinstance(error, json.JSONDecodeError):
        return f"This is not JSON: {error.msg}, line {error.lineno} column {error.colno}."
    if isinstance(error, RepeatedKey):
        return f"The key “{error}” appears more than once. Remove all but one."
    return "This is not JSON that Tenfour can store."


def refuse_constant(name: str) -> None:
    raise ValueError(name)


def read_finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(digits)
    return number


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise RepeatedKey(truncate(key, 100))
        values[key] = value
    return values


def add_refusal(form: forms.Form, refusal: Refusal) -> None:
    field = "payload" if isinstance(refusal, PayloadTooLarge) else ""
    if isinstance(refusal, Invalid):
        field = str(refusal.more["errors"][0]["pointer"]).split("/")[1]
    elif refusal.code == "unknown_agent":
        field = "agent"
    form.add_error(field if field in form.fields else None, refusal.detail)
