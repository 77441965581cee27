"""Check the response schema of a question and the answer to it (pure).

A response schema is a JSON Schema of a flat object, whose properties are strings, numbers and
booleans, so that each can be a field on a page. Every keyword is enforced; a schema with other
keywords is refused when the question is asked.
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
# the further keywords of each type
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
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "a boolean",
}
FORMATS = {
    "date": "a date such as 2026-11-21",
    "date-time": "a time such as 2026-11-21T14:05:58Z",
    "email": "an email address",
    "uri": "a URL with its scheme",
}
YES_NO = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class Field:
    """A property as a field on a page; `value` is the typed text or the default."""

    name: str
    label: str
    hint: str
    type: str
    choices: tuple[str, ...]
    is_required: bool
    value: str = ""


# ---- the schema


def check_schema(schema: Mapping[str, Any]) -> None:
    check_keywords(schema, (*SCHEMA_KEYS, "additionalProperties"), SCHEMA_POINTER)
    if schema.get("type") != "object":
        raise Invalid(
            f"{SCHEMA_POINTER}/type",
            "Set 'type' to 'object': a response schema describes a flat object.",
        )
    if schema.get("additionalProperties", False) is not False:
        raise Invalid(
            f"{SCHEMA_POINTER}/additionalProperties",
            "Set 'additionalProperties' to false, or omit it.",
        )
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or len(properties) > MOST_FIELDS:
        raise Invalid(
            f"{SCHEMA_POINTER}/properties",
            f"'properties' must be an object with at most {MOST_FIELDS} properties.",
        )
    for name, rules in properties.items():
        check_property(name, rules)
    for each in required if isinstance(required, list) else [required]:
        if not isinstance(required, list) or not isinstance(each, str) or each not in properties:
            raise Invalid(
                f"{SCHEMA_POINTER}/required", "'required' must be a list of property names."
            )


def check_property(name: str, rules: Any) -> None:
    pointer = f"{SCHEMA_POINTER}/properties/{escape_pointer(name)}"
    if not NAME.fullmatch(name):
        raise Invalid(pointer, "A property name has at most 64 letters, digits, '_' and '-'.")
    if not isinstance(rules, dict):
        raise Invalid(pointer, "A property must be an object with a 'type'.")
    type = rules.get("type")
    if not isinstance(type, str) or type not in TYPES:
        raise Invalid(f"{pointer}/type", "The type must be string, number, integer or boolean.")
    check_keywords(rules, (*COMMON_KEYWORDS, *KEYWORDS[type]), pointer)
    for keyword in ("minLength", "maxLength"):
        if keyword in rules and not (TYPES["integer"](rules[keyword]) and rules[keyword] >= 0):
            raise Invalid(f"{pointer}/{keyword}", f"'{keyword}' must be an integer from 0.")
    for keyword in ("minimum", "maximum"):
        if keyword in rules and not TYPES["number"](rules[keyword]):
            raise Invalid(f"{pointer}/{keyword}", f"'{keyword}' must be a number.")
    if "format" in rules and rules["format"] not in tuple(FORMATS):
        raise Invalid(f"{pointer}/format", f"'format' must be one of {', '.join(FORMATS)}.")
    values = rules.get("enum", [None])
    if not isinstance(values, list) or not 1 <= len(values) <= MOST_VALUES:
        raise Invalid(f"{pointer}/enum", f"'enum' must be a list of 1 to {MOST_VALUES} values.")
    if "enum" in rules and not all(map(TYPES[type], values)):
        raise Invalid(f"{pointer}/enum", f"Each value of 'enum' must be {TYPE_NAMES[type]}.")
    for keyword in ("title", "description"):
        if not isinstance(rules.get(keyword, ""), str):
            raise Invalid(f"{pointer}/{keyword}", f"'{keyword}' must be a string.")
    if "default" in rules and (wrong := find_mismatch(rules, rules["default"])):
        raise Invalid(f"{pointer}/default", f"The default {wrong}.")


def check_keywords(rules: Mapping[str, Any], keywords: tuple[str, ...], pointer: str) -> None:
    # A keyword that would not be enforced is refused.
    for keyword in rules:
        if keyword not in keywords:
            raise Invalid(
                f"{pointer}/{escape_pointer(keyword)}",
                f"'{keyword}' is not supported; use {', '.join(keywords)}.",
            )


def escape_pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# ---- an answer


def check(schema: Mapping[str, Any], values: Mapping[str, Any]) -> None:
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
                f"'{name}' is required: {describe_property(properties[name])}.",
            )
    for name, value in values.items():
        if wrong := find_mismatch(properties[name], value):
            raise Invalid(f"{ANSWER_POINTER}/{name}", f"'{name}' {wrong}.")


def find_mismatch(rules: Mapping[str, Any], value: Any) -> str:
    """Return why a value is invalid, such as "must be a string"; empty if it matches."""
    type = rules["type"]
    if not TYPES[type](value):
        return f"must be {TYPE_NAMES[type]}"
    if "enum" in rules and value not in rules["enum"]:
        return f"must be one of {', '.join(map(format_value, rules['enum']))}"
    if type == "string":
        if len(value) < rules.get("minLength", 0):
            return f"must have at least {rules['minLength']} characters"
        if len(value) > rules.get("maxLength", len(value)):
            return f"must have at most {rules['maxLength']} characters"
        if "format" in rules and not has_format(rules["format"], value):
            return f"must be {FORMATS[rules['format']]}"
    if type in ("number", "integer"):
        if value < rules.get("minimum", value):
            return f"must be at least {rules['minimum']}"
        if value > rules.get("maximum", value):
            return f"must be at most {rules['maximum']}"
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


def describe_property(rules: Mapping[str, Any]) -> str:
    if "enum" in rules:
        return f"one of {', '.join(map(format_value, rules['enum']))}"
    return FORMATS[rules["format"]] if "format" in rules else TYPE_NAMES[rules["type"]]


def format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def format_values(values: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {format_value(value)}" for name, value in values.items())


# ---- a form on a page


def list_fields(schema: Mapping[str, Any], typed: Mapping[str, str] | None = None) -> list[Field]:
    return [
        Field(
            name,
            label=rules.get("title") or name,
            hint=rules.get("description", ""),
            type=rules["type"],
            choices=list_choices(rules),
            is_required=name in schema.get("required", []),
            value=format_value(rules.get("default", "")) if typed is None else typed.get(name, ""),
        )
        for name, rules in schema.get("properties", {}).items()
    ]


def list_choices(rules: Mapping[str, Any]) -> tuple[str, ...]:
    if rules["type"] == "boolean" and "enum" not in rules:
        return ("yes", "no")
    return tuple(map(format_value, rules.get("enum", ())))


def parse_values(schema: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, Any]:
    # A text that is not of its type stays a string, so that `check` refuses it.
    properties = schema.get("properties", {})
    return {
        name: parse_value(rules["type"], typed[name])
        for name, rules in properties.items()
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
