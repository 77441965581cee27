"""The form that an agent wants an answer in: refused where it is unfit, held where it is fit."""

from typing import Any

import pytest

from ledger.errors import Invalid
from ledger.models import Agent
from retries.escalations import response_schema
from retries.models import Escalation
from retries.retry_context.history import load_histories
from tests.retries.attempts.test_questions import asked
from tests.retries.escalations.test_task_effects import answer

FORM = {
    "type": "object",
    "properties": {
        "table": {"type": "string", "enum": ["orders", "items"], "title": "Which table"},
        "rows": {"type": "integer", "minimum": 1, "maximum": 500, "default": 10},
        "ratio": {"type": "number"},
        "drop": {"type": "boolean"},
        "by": {"type": "string", "format": "email", "maxLength": 20},
    },
    "required": ["table", "drop"],
}
FIT = {"table": "orders", "drop": False}


def place(refused: Any) -> str:
    pointer: str = refused.value.more["errors"][0]["pointer"]
    return pointer


def of(**said: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": said}}


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({}, "/type"),
        ({"type": "string"}, "/type"),
        ({"type": "object", "$ref": "https://example.org/s"}, "/$ref"),
        ({"type": "object", "additionalProperties": True}, "/additionalProperties"),
        ({"type": "object", "properties": []}, "/properties"),
        ({"type": "object", "properties": {f"x{n}": {} for n in range(21)}}, "/properties"),
        ({"type": "object", "properties": {"a/b": {"type": "string"}}}, "/properties/a~1b"),
        ({"type": "object", "required": ["y"]}, "/required"),
        ({"type": "object", "required": "x", "properties": {"x": {}}}, "/properties/x/type"),
        ({"type": "object", "required": "x"}, "/required"),
        ({"type": "object", "properties": {"x": "string"}}, "/properties/x"),
        (of(type=["string", "null"]), "/properties/x/type"),
        (of(type="object", properties={}), "/properties/x/type"),
        (of(type="array"), "/properties/x/type"),
        (of(type="string", pattern="(a+)+$"), "/properties/x/pattern"),
        (of(type="string", minimum=1), "/properties/x/minimum"),
        (of(type="string", maxLength=-1), "/properties/x/maxLength"),
        (of(type="integer", maximum="9"), "/properties/x/maximum"),
        (of(type="string", format="regex"), "/properties/x/format"),
        (of(type="string", format=["date"]), "/properties/x/format"),
        (of(type="string", enum=[]), "/properties/x/enum"),
        (of(type="integer", enum=[1, True]), "/properties/x/enum"),
        (of(type="string", title=1), "/properties/x/title"),
        (of(type="integer", minimum=3, default=2), "/properties/x/default"),
    ],
)
def test_an_unsupported_schema_is_refused(schema: dict[str, Any], where: str) -> None:
    with pytest.raises(Invalid) as refused:
        response_schema.check_schema(schema)
    assert place(refused) == f"/response_schema{where}"


@pytest.mark.parametrize(
    ("values", "where", "says"),
    [
        ({}, "table", "'table' is required: one of orders, items."),
        ({"table": "orders"}, "drop", "'drop' is required: a boolean."),
        (FIT | {"table": "users"}, "table", "'table' must be one of orders, items."),
        (FIT | {"drop": "no"}, "drop", "'drop' must be a boolean."),
        (FIT | {"rows": True}, "rows", "'rows' must be an integer."),
        (FIT | {"rows": 1.5}, "rows", "'rows' must be an integer."),
        (FIT | {"rows": 0}, "rows", "'rows' must be at least 1."),
        (FIT | {"rows": 501}, "rows", "'rows' must be at most 500."),
        (FIT | {"ratio": float("nan")}, "ratio", "'ratio' must be a number."),
        (FIT | {"by": "mara"}, "by", "'by' must be an email address."),
        (FIT | {"by": f"mara@{'x' * 20}.org"}, "by", "'by' must have at most 20 characters."),
        (FIT | {"a/b": 1}, "a~1b", "The question asks for table, rows, ratio, drop, by, not"),
    ],
)
def test_wrong_values_are_refused_with_a_pointer(
    values: dict[str, Any], where: str, says: str
) -> None:
    with pytest.raises(Invalid) as refused:
        response_schema.check(FORM, values)
    assert place(refused) == f"/response/{where}" and says in refused.value.detail


@pytest.mark.parametrize(
    ("format", "fit", "unfit"),
    [
        ("date", "2026-11-21", "21.11.2026"),
        ("date-time", "2026-11-21T14:05:58Z", "2026-11-21T14:05:58"),
        ("uri", "https://example.org/a", "example.org"),
    ],
)
def test_formats_are_checked(format: str, fit: str, unfit: str) -> None:
    schema = of(type="string", format=format)
    response_schema.check_schema(schema)
    response_schema.check(schema, {"x": fit})
    with pytest.raises(Invalid, match=response_schema.FORMATS[format]):
        response_schema.check(schema, {"x": unfit})


def test_typed_texts_become_values() -> None:
    """What is not of its type stays as it was typed, and is told so."""
    typed = {"table": "items", "rows": " 12 ", "ratio": "0.5", "drop": "Yes", "by": " "}
    values = response_schema.parse_values(FORM, typed)
    assert values == {"table": "items", "rows": 12, "ratio": 0.5, "drop": True}
    response_schema.check(FORM, values)
    rude = {"rows": "²", "ratio": "1e999", "drop": "maybe", "else": "x"}
    assert response_schema.parse_values(FORM, rude) == {
        "rows": "²",
        "ratio": "1e999",
        "drop": "maybe",
    }
    offered = {each.name: each for each in response_schema.list_fields(FORM)}
    assert (offered["rows"].value, offered["drop"].choices) == ("10", ("yes", "no"))
    assert (offered["table"].label, offered["table"].is_required) == ("Which table", True)


@pytest.mark.django_db
def test_an_answer_must_match_the_schema(agent: Agent) -> None:
    """api.md §4.5"""
    found = asked(agent, response_schema=FORM)
    for more, where in (
        ({}, "/response/table"),
        ({"fix": "orders, keep it"}, "/response/table"),
        ({"response": FIT | {"rows": 0}}, "/response/rows"),
        ({"response": FIT, "fix": "x" * 3990}, "/instruction"),
    ):
        with pytest.raises(Invalid) as refused:
            answer(found, "answer", **more)
        assert place(refused) == where
    assert Escalation.objects.get().is_open
    done = answer(found, "answer", fix="Mind the index", response=FIT | {"ratio": 0.5})
    assert done.response == FIT | {"ratio": 0.5}
    said = "Mind the index\ntable: orders\ndrop: no\nratio: 0.5"
    assert done.fix == said and load_histories([done.task_id])[done.task_id].fix == said


@pytest.mark.django_db
def test_text_is_the_value_of_the_property_instruction(agent: Agent) -> None:
    """api.md §4.5: a schema of one property `instruction`."""
    schema = {"type": "object", "properties": {"instruction": {"type": "string", "maxLength": 9}}}
    found = asked(agent, response_schema=schema)
    with pytest.raises(Invalid, match="'instruction' must have at most 9 characters"):
        answer(found, "answer", "Drop them all")
    assert answer(found, "answer", "Drop it").response == {"instruction": "Drop it"}


@pytest.mark.django_db
def test_only_an_answer_to_a_schema_has_values(agent: Agent) -> None:
    for made, action in ((asked(agent), "answer"), (asked(agent, response_schema=FORM), "fix")):
        with pytest.raises(Invalid) as refused:
            answer(made, action, "Go on", response=FIT)
        assert place(refused) == "/response"
    assert answer(made, "fix", "Go on").response is None


@pytest.mark.django_db
def test_a_question_with_an_unsupported_schema_is_refused(agent: Agent) -> None:
    with pytest.raises(Invalid) as refused:
        asked(agent, response_schema={"type": "object", "properties": {"x": {"type": "array"}}})
    assert place(refused) == "/response_schema/properties/x/type"
    assert not Escalation.objects.exists()
