"""Read JSON and YAML bodies that can be stored: no NaN, NUL, lone surrogates, or repeated keys."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ledger.errors import BadRequest, Invalid
from ledger.planfile.values import load_yaml
from ledger.secrets.redaction import DEEPEST

# NUL and lone surrogates; the latter also as bytes, which UTF-8 does not allow.
SUSPECT = re.compile(rb"\\u(0000|[dD][89a-fA-F])|\xed[\xa0-\xbf]")
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def parse_body(raw: bytes) -> Any:
    """Return the JSON value in a body; raise BadRequest if it is malformed or nested too deep."""
    too_deep = f"The body is nested more than {DEEPEST} levels deep."
    try:
        body = read_json(raw.decode(json.detect_encoding(raw), "surrogatepass"))
    except RecursionError as error:
        raise BadRequest(too_deep) from error
    except ValueError as error:
        raise BadRequest(f"The body is not valid JSON: {error}") from error
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and is_deep(body):
        raise BadRequest(too_deep)
    return body


def convert_yaml(raw: bytes) -> bytes:
    """Return a body in YAML as JSON, to which the same rules apply; raise BadRequest."""
    try:
        return json.dumps(load_yaml(raw.decode("utf-8-sig"), what="body")).encode()
    except (UnicodeDecodeError, TypeError) as error:
        raise BadRequest(f"The body is not valid YAML: {error}") from error


def clean_body(body: Any, raw: bytes, *, cleaned: bool, is_counted: bool = False) -> Any:
    """Return a body whose strings can be stored; raise Invalid if one can't, unless `cleaned`.

    If the client counts the bytes of what it sends, they stay as many.
    """
    # `raw` is the body as it was sent: most bodies need no search of their strings.
    if not SUSPECT.search(raw):
        return body
    if cleaned:
        return remove_unstorable(body, replace_unstorable if is_counted else "")
    refuse_unstorable(body)
    return body


def parse_finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"the number {digits} is too large")
    return number


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {json.dumps(repeated[:100])} appears more than once")
    return values


read_json = json.JSONDecoder(
    parse_constant=refuse_constant, parse_float=parse_finite, object_pairs_hook=build_object
).decode


def is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, (dict, list)) for each in level)


def refuse_unstorable(body: Any) -> None:
    for pointer, text in list_strings(body):
        if match := UNSTORABLE.search(text):
            raise Invalid(
                pointer, f"The character U+{ord(match[0]):04X} at {match.start()} can't be stored."
            )


def list_strings(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield pointer, key
            yield from list_strings(inner, f"{pointer}/{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from list_strings(inner, f"{pointer}/{index}")


def remove_unstorable(value: Any, by: str | Callable[[re.Match[str]], str]) -> Any:
    if isinstance(value, str):
        return UNSTORABLE.sub(by, value)
    if isinstance(value, dict):
        return {
            remove_unstorable(key, by): remove_unstorable(each, by) for key, each in value.items()
        }
    return [remove_unstorable(each, by) for each in value] if isinstance(value, list) else value


def replace_unstorable(found: re.Match[str]) -> str:
    # characters with as many bytes, which redaction removes or takes as they are
    return "\x01" if found[0] == "\0" else "\ufffd"
