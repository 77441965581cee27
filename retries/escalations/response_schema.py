"""The form that an agent wants an answer in (pure): a JSON Schema of a flat object.

Its properties are texts, numbers and yes or no, so that every one of them can be a field on a page.
All that such a schema says is checked; one that says more is refused when it is asked with.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from ledger.errors import Invalid

MOST_FIELDS = 20
MOST_VALUES = 50
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
SCHEMA_POINTER, ANSWER_POINTER = "/response_schema", "/response"

SCHEMA_KEYS = ("$schema", "title", "description", "type", "properties", "required")
COMMON_KEYWORDS = ("type", "title", "description", "default", "enum")
# the keywords of each type beside these
KEYWORDS = {
    "string": ("minLength", "maxLength", "format"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
}
TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: (
        TYPES["integer"](value) or (isinstance(value, float) and math.isfinite(value))
    ),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
}
TYPE_NAMES = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "yes or no",
}
FORMATS = {
    "date": "a date such as 2026-11-21",
    "date-time": "a time such as 2026-11-21T14:05:58Z",
    "email": "an address of mail",
    "uri": "a web address with its scheme",
}
YES_NO = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class Field:
    """A property as a page asks for it; `value` is what was typed or is proposed."""

    name: str
    label: str
    hint: str
    type: str
    choices: tuple[str, ...]
    is_needed: bool
    value: str = ""


# ---- the schema


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises Invalid, with the place, where it is no schema of this kind."""
    check_keywords(schema, (*SCHEMA_KEYS, "additionalProperties"), SCHEMA_POINTER)
    if schema.get("type") != "object":
        raise Invalid(
            f"{SCHEMA_POINTER}/type", "A response_schema is of type 'object', a flat one."
        )
    if schema.get("additionalProperties", False) is not False:
        raise Invalid(
            f"{SCHEMA_POINTER}/additionalProperties",
            "An answer has the named properties alone: false.",
        )
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or len(properties) > MOST_FIELDS:
        raise Invalid(
            f"{SCHEMA_POINTER}/properties",
            f"'properties' is an object of at most {MOST_FIELDS} properties.",
        )
    for name, said in properties.items():
        check_property(name, said)
    for each in required if isinstance(required, list) else [required]:
        if not isinstance(required, list) or not isinstance(each, str) or each not in properties:
            raise Invalid(
                f"{SCHEMA_POINTER}/required", "'required' is a list of names of properties."
            )


def check_property(name: str, said: Any) -> None:
    place = f"{SCHEMA_POINTER}/properties/{escape_pointer(name)}"
    if not NAME.fullmatch(name):
        raise Invalid(place, "A property's name has letters, digits, '_' and '-', at most 64.")
    if not isinstance(said, dict):
        raise Invalid(place, "A property is described by an object with its 'type'.")
    type = said.get("type")
    if not isinstance(type, str) or type not in TYPES:
        raise Invalid(f"{place}/type", "A property is of type string, number, integer or boolean.")
    check_keywords(said, (*COMMON_KEYWORDS, *KEYWORDS[type]), place)
    for keyword in ("minLength", "maxLength"):
        if keyword in said and not (TYPES["integer"](said[keyword]) and said[keyword] >= 0):
            raise Invalid(f"{place}/{keyword}", f"'{keyword}' is a whole number from 0.")
    for keyword in ("minimum", "maximum"):
        if keyword in said and not TYPES["number"](said[keyword]):
            raise Invalid(f"{place}/{keyword}", f"'{keyword}' is a number.")
    if "format" in said and said["format"] not in tuple(FORMATS):
        raise Invalid(f"{place}/format", f"'format' is one of {', '.join(FORMATS)}.")
    values = said.get("enum", [None])
    if not isinstance(values, list) or not 1 <= len(values) <= MOST_VALUES:
        raise Invalid(f"{place}/enum", f"'enum' is a list of 1 to {MOST_VALUES} values.")
    if "enum" in said and not all(map(TYPES[type], values)):
        raise Invalid(f"{place}/enum", f"Each value of 'enum' is {TYPE_NAMES[type]}.")
    for keyword in ("title", "description"):
        if not isinstance(said.get(keyword, ""), str):
            raise Invalid(f"{place}/{keyword}", f"'{keyword}' is a text.")
    if "default" in said and (wrong := find_mismatch(said, said["default"])):
        raise Invalid(f"{place}/default", f"The default {wrong}.")


def check_keywords(said: Mapping[str, Any], keywords: tuple[str, ...], place: str) -> None:
    """What nobody would check is no promise."""
    for keyword in said:
        if keyword not in keywords:
            raise Invalid(
                f"{place}/{escape_pointer(keyword)}",
                f"'{keyword}' is not checked here; known are {', '.join(keywords)}.",
            )


def escape_pointer(name: str) -> str:
    """A key as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


# ---- an answer


def check(schema: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raises Invalid, with the place, where the values of an answer don't fit the schema."""
    properties = schema.get("properties", {})
    for name in values:
        if name not in properties:
            named = f"asks for {', '.join(properties)}" if properties else "asks for no values"
            raise Invalid(
                f"{ANSWER_POINTER}/{escape_pointer(name)}",
                f"The question {named}, not for '{name}'.",
            )
    for name in schema.get("required", []):
        if name not in values:
            raise Invalid(
                f"{ANSWER_POINTER}/{name}",
                f"'{name}' is missing: {describe_property(properties[name])}.",
            )
    for name, value in values.items():
        if wrong := find_mismatch(properties[name], value):
            raise Invalid(f"{ANSWER_POINTER}/{name}", f"'{name}' {wrong}.")


def find_mismatch(said: Mapping[str, Any], value: Any) -> str:
    """What is wrong with a value, to go on after its name; empty where it fits."""
    type = said["type"]
    if not TYPES[type](value):
        return f"is {TYPE_NAMES[type]}"
    if "enum" in said and value not in said["enum"]:
        return f"is one of {', '.join(map(format_value, said['enum']))}"
    if type == "string":
        if len(value) < said.get("minLength", 0):
            return f"has at least {said['minLength']} characters"
        if len(value) > said.get("maxLength", len(value)):
            return f"has at most {said['maxLength']} characters"
        if "format" in said and not has_format(said["format"], value):
            return f"is {FORMATS[said['format']]}"
    if type in ("number", "integer"):
        if value < said.get("minimum", value):
            return f"is at least {said['minimum']}"
        if value > said.get("maximum", value):
            return f"is at most {said['maximum']}"
    return ""


def has_format(format: str, text: str) -> bool:
    try:
        match format:
            case "date":
                return date.fromisoformat(text).isoformat() == text
            case "date-time":
                return "T" in text and datetime.fromisoformat(text).tzinfo is not None
            case "email":
                return bool(EMAIL.fullmatch(text))
    except ValueError:
        return False
    return is_uri(text)


def is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r"\s", text)


def describe_property(said: Mapping[str, Any]) -> str:
    """What a property is to be, in words."""
    if "enum" in said:
        return f"one of {', '.join(map(format_value, said['enum']))}"
    return FORMATS[said["format"]] if "format" in said else TYPE_NAMES[said["type"]]


def format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def format_values(values: Mapping[str, Any]) -> str:
    """The values as words for the agent, one to a line."""
    return "\n".join(f"{name}: {format_value(value)}" for name, value in values.items())


# ---- a form on a page


def list_fields(schema: Mapping[str, Any], typed: Mapping[str, str] | None = None) -> list[Field]:
    """What a page asks for; filled with what was typed, at first with what is proposed."""
    return [
        Field(
            name,
            label=said.get("title") or name,
            hint=said.get("description", ""),
            type=said["type"],
            choices=list_choices(said),
            is_needed=name in schema.get("required", []),
            value=format_value(said.get("default", "")) if typed is None else typed.get(name, ""),
        )
        for name, said in schema.get("properties", {}).items()
    ]


def list_choices(said: Mapping[str, Any]) -> tuple[str, ...]:
    if said["type"] == "boolean" and "enum" not in said:
        return ("yes", "no")
    return tuple(map(format_value, said.get("enum", ())))


def parse_values(schema: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, Any]:
    """The values of what was typed, without the fields that were left empty.

    What is not of its type stays a text, for `check` to say so.
    """
    properties = schema.get("properties", {})
    return {
        name: parse_value(said["type"], typed[name])
        for name, said in properties.items()
        if typed.get(name, "").strip()
    }


def parse_value(type: str, text: str) -> Any:
    if type == "string":
        return text
    text = text.strip()
    if type == "boolean":
        return YES_NO.get(text.lower(), text)
    try:
        return int(text) if type == "integer" or text.lstrip("-").isdigit() else parse_finite(text)
    except ValueError:
        return text


def parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
