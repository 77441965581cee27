"""Repeated texts on which a regular expression may need more than linear time."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# the parser of the standard library, which has no public name
parser: Any = importlib.import_module("re._parser")

REPEATED = (
    *("a", "Z", "é", "5", "_", " ", "\t", "\n", "\r", "(", "[", "{", "<", '"', "'", "`", "\\"),
    *("/", "=", "-", ".", ",", ":", "*", "#", "@", "‹", "a ", "a.", "a-", "a=", "a/", "1.", "A_"),
    *('\\"', "a\n", " \n", "- ", "<a", '="', "# a", "a,b1"),
)
# What ends a text: nothing, and what most patterns do not expect.
ENDS = ("", "!\n")
# a repetition up to more than this counts as one without a bound
SHORT_REPEAT = 16
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
CHARACTERS = "a1A _-./\n\"'<>=:,;()[]{}\\#*+!?@$%^&|~`‹›“”\x1b\x00\x80\ud800"


@dataclass(frozen=True, slots=True)
class HostileText:
    """A text that repeats a part between a start and an end."""

    part: str
    start: str = ""
    end: str = ""

    def build(self, length: int) -> str:
        text = self.start + self.part * (length // len(self.part) + 1)
        return text[:length] + self.end


def build_texts(pattern: str, flags: int) -> list[HostileText]:
    """Return the texts for a pattern: the common ones, and those that its own repetitions read."""
    repeats: list[tuple[str, str]] = []
    whole = sample(parser.parse(pattern, flags), repeats)
    found = [HostileText(each) for each in (*REPEATED, whole) if each]
    for before, inner in repeats:
        if before:
            found.append(HostileText(before))
        if before and inner:
            found += [HostileText(inner, before), HostileText(before + inner * 3)]
    once = list(dict.fromkeys(found))
    return [HostileText(each.part, each.start, end) for each in once for end in ENDS]


def sample(tree: Any, repeats: list[tuple[str, str]]) -> str:
    """Return a short text for a pattern; note its repetitions, with the text before each."""
    text = ""
    for operation, value in tree:
        name = str(operation)
        if name == "LITERAL":
            text += chr(value)
        elif name == "NOT_LITERAL":
            text += "a" if chr(value) != "a" else "b"
        elif name == "ANY":
            text += "a"
        elif name == "IN":
            text += pick(value)
        elif name == "SUBPATTERN":
            text += nested(value[3], text, repeats)
        elif name == "ATOMIC_GROUP":
            text += nested(value, text, repeats)
        elif name == "BRANCH":
            text += min((nested(each, text, repeats) for each in value[1]), key=len)
        elif name in REPEATS:
            least, most, inner = value
            once = nested(inner, text, repeats)
            if most > SHORT_REPEAT:
                repeats.append((text + once * min(least, 100), once))
            text += once * min(least, 100)
    return text


def nested(tree: Any, before: str, repeats: list[tuple[str, str]]) -> str:
    own: list[tuple[str, str]] = []
    text = sample(tree, own)
    repeats += [(before + start, inner) for start, inner in own]
    return text


def pick(members: Any) -> str:
    """Return a character of a class."""
    is_negated = str(members[0][0]) == "NEGATE"
    for each in (*CHARACTERS, *firsts(members)):
        if is_member(each, members) != is_negated:
            return each
    return "a"


def firsts(members: Any) -> Iterator[str]:
    for operation, value in members:
        if str(operation) == "LITERAL":
            yield chr(value)
        elif str(operation) == "RANGE":
            yield chr(value[0])


def is_member(character: str, members: Any) -> bool:
    for operation, value in members:
        name = str(operation)
        if name == "LITERAL" and ord(character) == value:
            return True
        if name == "RANGE" and value[0] <= ord(character) <= value[1]:
            return True
        if name == "CATEGORY":
            kind = str(value).rpartition("_")[2]
            is_of_kind = {
                "DIGIT": character.isdigit(),
                "SPACE": character.isspace(),
                "WORD": character.isalnum() or character == "_",
            }[kind]
            if is_of_kind != ("NOT" in str(value)):
                return True
    return False
