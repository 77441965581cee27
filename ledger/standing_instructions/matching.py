"""Check what a rule matches, and bring paths into the form that its glob is compared with."""

import math
import posixpath
import re
from typing import Any

from ledger.database.sql import Row
from ledger.errors import Invalid
from ledger.instructions import EXPECT_TYPE_LENGTH, MATCH_SCALARS

PATH = "path"
GLOB_LENGTH = 200
GLOB_SEGMENTS = 32
GLOB_WILDCARDS = 16
PATH_LENGTH = 4096
VALUE_LENGTH = 1000
DRIVE = re.compile(r"[A-Za-z]:/")
# Reserved in other tools' globs: a rule that took them as plain characters would never fire.
UNSUPPORTED = "[]{}!"


def check_match(match: dict[str, Any]) -> dict[str, Any]:
    """Return a rule's match; raises Invalid unless it is flat, with at most a glob on the path."""
    if len(match) > MATCH_SCALARS:
        raise Invalid("/on/match", f"match must have at most {MATCH_SCALARS} values.")
    for name, value in match.items():
        pointer = f"/on/match/{name}"
        if len(name) > EXPECT_TYPE_LENGTH:
            raise Invalid(pointer, f"A field has at most {EXPECT_TYPE_LENGTH} characters.")
        if isinstance(value, dict) and set(value) == {"glob"}:
            if name != PATH:
                raise Invalid(
                    pointer,
                    f"A glob works on '{PATH}' alone. Give '{name}' the exact value to compare.",
                )
            check_glob(value["glob"], pointer=f"{pointer}/glob")
        elif isinstance(value, (dict, list)) or is_too_large(value):
            raise Invalid(
                pointer,
                f"Give a string of at most {VALUE_LENGTH} characters, a number, true, false or "
                f'null; \'{PATH}\' may also be {{"glob": "src/**"}}.',
            )
    return match


def is_too_large(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, str) and len(value) > VALUE_LENGTH


def check_glob(glob: object, *, pointer: str) -> str:
    """Return the glob; raises Invalid if it is too long or no path could ever match it."""
    if not isinstance(glob, str) or not glob.strip() or len(glob) > GLOB_LENGTH:
        raise Invalid(pointer, f"A glob is a string of 1 to {GLOB_LENGTH} characters.")
    if found := [each for each in UNSUPPORTED if each in glob]:
        raise Invalid(
            pointer,
            f"The character '{found[0]}' is not supported in a glob. Use '*' and '?' inside one "
            "part of a path, and '**' for any number of folders.",
        )
    if "\\" in glob or glob.startswith("/") or DRIVE.match(glob):
        raise Invalid(
            pointer,
            "A glob is compared with paths relative to the project's folder and uses '/' between "
            "folders, such as 'src/**'.",
        )
    segments = glob.split("/")
    if len(segments) > GLOB_SEGMENTS:
        raise Invalid(pointer, f"A glob has at most {GLOB_SEGMENTS} parts between slashes.")
    if {"", ".", ".."} & set(segments):
        raise Invalid(pointer, "A glob has no empty parts, no '.' and no '..'.")
    if glob.count("*") + glob.count("?") > GLOB_WILDCARDS:
        raise Invalid(pointer, f"A glob has at most {GLOB_WILDCARDS} characters '*' and '?'.")
    if any("**" in segment and segment != "**" for segment in segments):
        raise Invalid(pointer, "'**' stands alone between slashes, such as 'src/**/*.py'.")
    return glob


def to_pattern(glob: str) -> str:
    """Return the glob as an anchored regular expression, which PostgreSQL runs in linear time.

    >>> to_pattern("src/**")
    '^src/.+$'
    >>> to_pattern("**/*.py")
    '^(.*/)?[^/]*\\\\.py$'
    """
    segments = glob.split("/")
    parts = []
    for at, segment in enumerate(segments):
        last = at == len(segments) - 1
        if segment == "**":
            parts.append(".+" if last else "(.*/)?")
        else:
            parts.append("".join(map(escape_character, segment)) + ("" if last else "/"))
    return f"^{''.join(parts)}$"


def escape_character(character: str) -> str:
    if character == "*":
        return "[^/]*"
    if character == "?":
        return "[^/]"
    return character if character.isalnum() or character in "/_" else f"\\{character}"


def split_match(match: dict[str, Any]) -> Row:
    glob = match.get(PATH)
    exact = {name: value for name, value in match.items() if not isinstance(value, dict)}
    pattern = to_pattern(glob["glob"]) if isinstance(glob, dict) else None
    return {"match_exact": exact, "path_pattern": pattern}


def normalize_path(path: object, *, folder: object = None) -> str | None:
    """Return the path relative to the project's folder, or None for one outside of it.

    >>> normalize_path("./src/../src/a.py")
    'src/a.py'
    >>> normalize_path("/srv/app/src/a.py", folder="/srv/app")
    'src/a.py'
    >>> normalize_path("/etc/passwd", folder="/srv/app")
    """
    plain = slashed(path)
    if plain is None:
        return None
    if is_absolute(plain):
        base = slashed(folder)
        if base is None or not is_absolute(base):
            return None
        plain = posixpath.relpath(with_drive(plain), with_drive(base))
    plain = posixpath.normpath(plain)
    return None if plain in (".", "..") or plain.startswith("../") else plain


def slashed(path: object) -> str | None:
    if not isinstance(path, str) or not 0 < len(path) <= PATH_LENGTH:
        return None
    return path.replace("\\", "/")


def is_absolute(path: str) -> bool:
    return path.startswith("/") or DRIVE.match(path) is not None


def with_drive(path: str) -> str:
    """Return an absolute path that begins with one slash, and its drive in lower case."""
    if DRIVE.match(path):
        return f"/{path[0].lower()}{path[1:]}"
    return "/" + path.lstrip("/")


def comparable(data: dict[str, Any]) -> dict[str, Any]:
    """Return a signal's data as rules and expectations see it: with the path normalized."""
    if PATH not in data:
        return data
    path = normalize_path(data[PATH], folder=data.get("cwd"))
    return data if path is None else data | {PATH: path}
