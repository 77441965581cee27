"""Compute the signature of a failure (pure): its pattern, and what identifies its cause.

A pattern groups failures for people; a signature tells apart failures of one pattern that need
different fixes, such as two missing modules or two ports. Line numbers, durations and memory
addresses are never part of it. A pattern here reads at most 400 characters, a headline.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from retries.failures.fingerprints import Identity, identify, make_template
from retries.failures.masks import CAUSE_KEYS, SUFFIX, TOP_LEVEL
from retries.failures.outputs.failing_tests import find_test_file
from retries.failures.outputs.own_frames import find_frame, find_place, shorten_path

# The rules' version is part of a signature: failures signed by other rules share none with it.
VERSION = "2-"
SIGNATURE_LENGTH = 16
MOST_ENTITIES, ENTITY_LENGTH = 8, 80
LEAST_WORDS = 3  # of a message that identifies a cause
# An empty pair of quotation marks names nothing, but must not pair with the next one.
QUOTED = re.compile(
    r"(?<!\w)'([^'\n]{0,200})'(?!\w)|\"([^\"\n]{0,200})\"|`([^`'\n]{0,200})[`']|[‘“]([^’”\n]{0,200})[’”]"
)
KIND = (
    r"(?:package|module|crate|gem|host|command|image|job|table|column|relation|service|resource"
    r"|fixture|script|target|variable|symbol|library|database|role|schema|namespace|branch|secret"
    r"|distribution found for|requirement|dependency|import|flag|option|argument|env)"
)
# A module, a host and the like without quotation marks: a plain word is a name only after a colon
# or before what is wrong with it, since "command failed" names none.
NAMED = re.compile(
    rf"\b{KIND}s?(?:: (?=[\w@-])| named (?=[\w@])|\s(?=[A-Za-z@_-]{{0,60}}[\d_./@-])"
    r"|\s(?=[A-Za-z]{1,60} (?:does not"
    r"|doesn't|not found|is not|was not|has no|could not|cannot)\b))"
    r"(?!not\b|is\b|was\b|that\b|it\b)([\w@-][\w@./:=<>~^-]{0,119})",
    re.I,
)
# the kind of a quoted name
KIND_BEFORE = re.compile(rf"\b{KIND}s?(?: named| called)?:? ?$", re.I)
NOT_FOUND = re.compile(
    r"\bspawn ([\w@.+-]{1,80})|(?:^|[: ])([\w@.+-]{1,80}): (?:command )?not found\b"
    r"|command not found: ([\w@.+-]{1,80})"
    r"|\b(?:undefined: |unresolved import |library not found for |cannot find (?=-l))"
    r"(-?[\w.:@-]{2,80})|\b([\w$]{2,80}) is not defined\b"
)
SETTING = re.compile(r"\b(?!ERR_|SIG)([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b")
VALUE = re.compile(r"[\d.,:%\s-]*")  # a number or a time names nothing
NAME = re.compile(r"[^\s=<>(){}]*[^\W\d_][^\s=<>(){}]*(?:\(\))?")
# types and words of languages: quoted, they name nothing
GENERIC = frozenset(
    [
        "string",
        "number",
        "int",
        "str",
        "float",
        "double",
        "bool",
        "boolean",
        "any",
        "void",
        "null",
        "undefined",
        "none",
        "nonetype",
        "object",
        "unknown",
        "never",
        "main",
        "self",
        "this",
        "left",
        "right",
        "expected",
        "actual",
        "return",
        "error",
        "true",
        "false",
        "function",
        "list",
        "dict",
        "tuple",
        "char",
        "integer",
        "bytes",
        "type",
        "name",
        "value",
    ]
)
# errors that name nothing, whatever they quote: only the place in the code tells them apart
NAMELESS = (
    *("of null", "of undefined", "nonetype", "null pointer", "undefined is not", "null is not"),
    *("null object", "null reference", "is null", "is undefined", "is nil", "for nil", "found nil"),
    *("nil pointer", "nullpointer", "nullreference", "out of range", "out of bounds", "indexerror"),
    *("indexoutof", "arrayindex", "nosuchelement", "keyerror", "panicked", "panic:", "sigsegv"),
    *("segmentation", "sigabrt", "sigbus", "core dumped", "assert", "borrow", "moved value"),
    *("unwrap()", "recursion", "stack overflow", "stackoverflow", "by zero", "zerodivision"),
)
CRASHED = (
    *("segmentation fault", "segfault", "sigsegv", "sigabrt", "sigbus", "sigkill", "sigill"),
    *("core dumped", "bus error", "killed", "aborted", "out of memory", "heap", "illegal instr"),
)
PROGRAM = re.compile(
    r"(?:segmentation fault|bus error|killed|aborted|illegal instruction)(?: *\(core dumped\))? +"
    r"([\w./~-]{1,200}(?: [\w./~][\w./~-]{0,200})?)"
    r"|([\w./-]{1,100})\[\d+\]: segfault",
    re.I,
)
RAN = re.compile(r"^`([^`\s]{1,200}(?: [^`\s]{1,200})?)[^`]{0,200}` returned exit code")
URL = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://(?:[^\s/@'\"]{1,80}@)?(\[[\da-f:]{2,40}\]|[\w.-]{1,200})"
    r"(?::(\d{1,5}))?(/[^\s'\"?#<>)\]}`]*)?",
    re.I,
)
ID = re.compile(r"\d+|[0-9a-f-]{16,}")
PINNED = re.compile(r"(?<![\w/@.-])(@?[A-Za-z][\w./-]{0,100})(?:==|@)[\"'^~v]{0,2}\d[\w.+-]*")
SOURCE = re.compile(r"\S+->")  # the own end of a connection
LOOPBACK = r"localhost|127\.0\.0\.1|0\.0\.0\.0|\[?::(?:1|ffff:127\.0\.0\.1)?\]?"
ADDRESS = re.compile(
    rf"(?<![\w.:/@-])({LOOPBACK}|\[[\da-fA-F:]{{2,40}}\]|(?:\d{{1,3}}\.){{3}}\d{{1,3}}"
    rf"|(?:[\w-]{{1,63}}\.){{1,8}}(?:{TOP_LEVEL}|[a-z]{{2}})\b(?=:\d)"
    rf"|(?:[\w-]{{1,63}}\.){{1,8}}(?:{TOP_LEVEL})\b(?![.(/-]?\w)"
    rf"|(?!{CAUSE_KEYS}:|line:|column:)[A-Za-z][\w-]{{1,62}}(?=:\d{{4,5}}\b))?"
    r"(?::(\d{2,5}))?(?![\w])"
)
PORT = re.compile(r"(?:\bport[ =:]{1,3}|', )(\d{1,5})\b", re.I)
ONLY_LOOPBACK = re.compile(rf"(?:{LOOPBACK})")
PATH = re.compile(
    r"(?<![\w./\\:@-])((?:[A-Za-z]:)?(?:[\w.@~+%$#-]{0,100}[/\\]){1,40}[\w.@~+%$#-]{1,100}/?"
    rf"|[\w@+-][\w.@+-]{{0,100}}\.{SUFFIX}\b)(:\d+|\(\d+|, line \d|: line \d)?"
)
SHELL = re.compile(r"/(?:usr/)?bin/(?:ba|da|z|k)?sh$")  # it says what failed
A_FILE = re.compile(rf"[/\\]|\.{SUFFIX}$")
VERSIONED = re.compile(r"(?<=[\w\]])(?:@|[=<>~^!]=?=?)[\s\"']{0,2}[v^~<>=]{0,2}\d[\w.+*-]*$")
# the file that imports a missing name, which is not the cause
MISSING = re.compile(r"\b(?:find|resolve|locate|load|import|module|package)\b", re.I)
IMPORTER = re.compile(
    r"(?:,? (?:imported|referenced|required|included|loaded|requested) (?:from|by|in)"
    rf"|,? (?:from|by|in)) \(?[\"'`]?[\w@.~+-]{{0,100}}(?:[/\\][\w@.~+-]{{0,100}}|\.{SUFFIX}\b)"
    r"[^\s,;)]*"
    rf"|\((?:/|[A-Za-z]:\\)[^\s)]+\.{SUFFIX}\)"
)
JSON_START = re.compile(r"[\[{] ?[{'\"]")
JSON_FIELD = re.compile(
    r"[\"'](message|code|reason|error|detail|error_description|msg|type|status)[\"']: ?"
    r"(?:\"([^\"\n]{1,300})|'([^'\n]{1,300})|(\d{1,6}))"
)
CODE = re.compile(
    r"\b(?:code|status|errno|signal|exit|http|sqlstate)[\s:=#(]{1,3}(-?\d{1,6})\b"
    r"|\berror[\s:=(]{1,3}([45]\d\d)\b",
    re.I,
)
# what differs between two runs of one cause
MOVING = re.compile(
    r"\b(?:line|column|col) \d+|\b0x[0-9a-f]+|\b\d+(?:\.\d+)? ?(?:ms|s|sec|seconds?|min|minutes?)\b"
    r"|(?<=\.\w\w):\d+(?::\d+)?|(?<=\.\w\w\w):\d+(?::\d+)?|(?<=\.js):\d+(?::\d+)?"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}",
    re.I,
)


@dataclass(frozen=True)
class Signature:
    """The pattern of a failure and what identifies its cause, in order.

    `details` tell causes apart, such as an exit code, but identify none.
    """

    identity: Identity
    entities: tuple[str, ...]
    details: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        parts = (self.identity.fingerprint, *sorted(self.entities), "", *sorted(self.details))
        digest = sha256("\n".join(parts).casefold().encode()).hexdigest()
        return (VERSION + digest)[:SIGNATURE_LENGTH]


class Names:
    """The names in a cause: outside the code, inside it, and those that identify nothing."""

    def __init__(self) -> None:
        self.outside: list[str] = []
        self.inside: list[str] = []
        self.details: list[str] = []
        self.places: list[str] = []


def sign(*texts: str) -> Signature:
    identity = identify(*texts)
    names = read_names(identity.headline)
    found = [*names.outside, *names.inside]
    if not names.outside:
        file = find_test_file(*texts) if identity.test else ""
        if file:
            found.append(f"{file} {identity.test}"[-ENTITY_LENGTH:])
        elif not names.inside:
            found += find_origin(identity, names, texts)
    return Signature(identity, pick(found), tuple(dict.fromkeys(names.details)))


def find_origin(identity: Identity, names: Names, texts: tuple[str, ...]) -> list[str]:
    """Return the origin of an error that names nothing: a program, a frame, or a file."""
    cause, headline = identity.headline.partition("; ")[0], identity.headline
    if names_any(headline, CRASHED) and (program := find_program(headline, texts)):
        return [program]
    place = find_frame(cause, *texts) or next(iter(names.places), "") or find_place(cause, *texts)
    return [place] if place else []


def names_any(text: str, words: tuple[str, ...]) -> bool:
    lower = text.lower()
    return any(each in lower for each in words)


def find_program(headline: str, texts: tuple[str, ...]) -> str:
    found = PROGRAM.search(headline)
    ran = found or next(filter(None, map(RAN.match, texts)), None)
    words = next(filter(None, ran.groups()), "").split() if ran else []
    return " ".join(map(shorten_path, words))


def pick(names: list[str]) -> tuple[str, ...]:
    kept = dict.fromkeys(
        name for name in names if name and len(name) <= ENTITY_LENGTH and not is_value(name)
    )
    return tuple(kept)[:MOST_ENTITIES]


def is_value(name: str) -> bool:
    return VALUE.fullmatch(name) is not None and name[0] != ":" and name.count(".") < 3


def read_names(cause: str) -> Names:
    names = Names()
    start = JSON_START.search(cause)
    if start or JSON_FIELD.search(cause):
        read_json(cause[start.start() if start else 0 :], names)
        cause = cause[: start.start()] if start else ""
    names.details += [next(filter(None, each.groups())) for each in CODE.finditer(cause)]
    if MISSING.search(cause):
        cause = IMPORTER.sub(" ", cause)
    if "==" in cause or "@" in cause:
        names.outside += [each[1] for each in PINNED.finditer(cause)]
        cause = PINNED.sub(" ", cause)
    rest = read_paths(read_quoted(read_hosts(cause, names), names), names)
    names.outside += [clean_name(each[1]) for each in NAMED.finditer(rest)]
    names.outside += [next(filter(None, each.groups())) for each in NOT_FOUND.finditer(rest)]
    names.outside += [each[1] for each in SETTING.finditer(rest)]
    names.outside = [each for each in names.outside if each]
    if names_any(cause, NAMELESS):
        names.details += names.inside
        names.inside = []
    return names


def read_json(text: str, names: Names) -> None:
    codes = []
    for match in JSON_FIELD.finditer(text):
        value = next(filter(None, match.groups()[1:]), "")
        if len(value.split()) < LEAST_WORDS:
            codes.append(value)
        else:
            names.outside.append(make_template(value)[:ENTITY_LENGTH])
            read_paths(read_quoted(read_hosts(value, names), names), names)
    # without a message a code such as `model_not_found` is all there is
    (names.details if names.outside else names.outside).extend(codes)


def read_hosts(text: str, names: Names) -> str:
    def add_url(match: re.Match[str]) -> str:
        add_host(names, match[1], match[2])
        parts = [each for each in (match[3] or "").strip("/.,:;").split("/") if each]
        names.outside.append("/".join(each for each in parts[-2:] if not ID.fullmatch(each)))
        return " "

    def add_address(match: re.Match[str]) -> str:
        host, port = match[1] or "", match[2]
        if not match[0] or (host and not port and ONLY_LOOPBACK.fullmatch(host)):
            return match[0] if not host else " "
        if re.search(rf"\.{SUFFIX}$", host):
            return match[0]
        add_host(names, host, port)
        return " "

    def add_port(match: re.Match[str]) -> str:
        add_host(names, "", match[1])
        return " "

    if "://" in text:
        text = URL.sub(add_url, text)
    if "->" in text:
        text = SOURCE.sub(" ", text)
    if ":" in text or "." in text or "localhost" in text:
        text = ADDRESS.sub(add_address, text)
    return PORT.sub(add_port, text)


def add_host(names: Names, host: str, port: str | None) -> None:
    host = "" if ONLY_LOOPBACK.fullmatch(host) else host.casefold().rstrip(".")
    name = f"{host}:{port}" if port else host
    if name:
        names.outside.append(name)


def read_quoted(text: str, names: Names) -> str:
    def add_quoted(match: re.Match[str]) -> str:
        quoted = MOVING.sub("", next(filter(None, match.groups()), "")).strip()
        name = clean_name(quoted)
        if not name or VALUE.fullmatch(name):
            return " "
        if not NAME.fullmatch(name) or name.casefold() in GENERIC:
            names.details.append(make_template(quoted)[:ENTITY_LENGTH])
        elif (
            SETTING.fullmatch(name)
            or A_FILE.search(name)
            or KIND_BEFORE.search(text[: match.start()])
        ):
            names.outside.append(name)
        else:
            names.inside.append(name)
        return " "

    return QUOTED.sub(add_quoted, text)


def read_paths(text: str, names: Names) -> str:
    # Places with a line are stored separately.
    def add_path(match: re.Match[str]) -> str:
        if not SHELL.match(match[1]):
            (names.places if match[2] else names.outside).append(shorten_path(match[1]))
        return " "

    return PATH.sub(add_path, text)


def clean_name(name: str) -> str:
    name = VERSIONED.sub("", name.strip().rstrip(".:,;"))
    return shorten_path(name) if re.search(r"[/\\]", name) and " " not in name else name
