"""The grammar of bash, and the limits of a line that is read with it (pure)."""

from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

# A longer line is not read: the parser's time grows with the square of some operators' number.
LINE_LENGTH = 16_384
MOST_OPERATORS = 400
OPERATORS = "|<"


@cache
def grammar() -> Language:
    return Language(tree_sitter_bash.language())


def parse(source: bytes) -> Node:
    return Parser(grammar()).parse(source).root_node


def is_too_long(line: str) -> bool:
    return len(line) > LINE_LENGTH or sum(map(line.count, OPERATORS)) > MOST_OPERATORS


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())
