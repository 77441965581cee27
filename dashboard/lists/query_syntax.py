"""Read OR and parentheses in the text of a query box (pure): `(agent:a OR agent:b) -state:done`.

Terms beside each other must all fit, and bind tighter than OR. A text without OR and parentheses
has no groups. What makes no sense becomes a sentence in `problems`; the rest still counts.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

MAX_DEPTH = 5
MAX_TERMS = 40  # in a query with OR or parentheses
OR = "OR"
TOKEN = re.compile(
    r"""(?P<minus>-)?(?P<key>(?:payload|result)(?:\.[A-Za-z0-9_-]++)++|[A-Za-z]+):(?!//)(?P<value>(?:"[^"]*"|\S)++)"""
    r"""|"(?P<words>[^"]*)"|\S+"""
)
QUOTED = re.compile(r'"[^"]*"')
PARTS = re.compile(r'"[^"]*"|.', re.DOTALL)
OPENS = re.compile(r"-?\(")
GROUPED_VALUE = re.compile(r"-?[A-Za-z]+:\(")
PLACE = "\ue000"  # stands for a place in a text


@dataclass(frozen=True, slots=True)
class Group:
    """Parentheses: one of the alternatives must fit."""

    alternatives: "Tree"


Item = str | Group
All = tuple[Item, ...]  # terms and groups that must all fit
Tree = tuple[All, ...]  # alternatives


@dataclass(frozen=True, slots=True)
class Piece:
    """A term, OR, or a parenthesis, and its place in the text, counted from one."""

    text: str
    at: int
    is_sign: bool = False


def tokens(text: str) -> Iterator[str]:
    return (match[0] for match in TOKEN.finditer(text))


def parse_tree(text: str) -> tuple[Tree, list[str]]:
    """Return the alternatives of a text and the sentences about its OR and parentheses."""
    pieces = split_pieces(text)
    if not has_groups(pieces):
        items = tuple(tokens(text))
        return (items,) if items else (), []
    parser = Parser(pieces)
    tree = parser.read_alternatives(None)
    return simplify(tree), parser.problems


def has_groups(pieces: Iterable["Piece"]) -> bool:
    # Without another sign, a parenthesis at the end of a word belongs to the word.
    return any(piece.is_sign and piece.text != ")" for piece in pieces)


def split_pieces(text: str) -> list[Piece]:
    pieces, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif opened := OPENS.match(text, at):
            pieces.append(Piece(opened[0], at + 1, is_sign=True))
            at = opened.end()
        else:
            match = TOKEN.match(text, at)
            assert match  # any character but a space begins a token
            word = cut_closing(match[0])
            if word:
                pieces.append(Piece(word, at + 1, is_sign=word == OR))
                at += len(word)
            else:
                pieces.append(Piece(")", at + 1, is_sign=True))
                at += 1
    return pieces


def cut_closing(token: str) -> str:
    """Return the beginning of a token, up to a parenthesis that it does not open itself.

    >>> [cut_closing(token) for token in ("agent:a))", "main()", 'type:"a)"', "a)(b")]
    ['agent:a', 'main()', 'type:"a)"', 'a']
    """
    depth = 0
    for piece in PARTS.finditer(token):
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
        if depth < 0:
            return token[: piece.start()]
    return token


def is_balanced(token: str) -> bool:
    plain = QUOTED.sub("", token)
    return plain.count("(") == plain.count(")")


@dataclass(slots=True)
class Parser:
    pieces: list[Piece]
    problems: list[str] = field(default_factory=list)
    next: int = 0
    depth: int = 0
    terms: int = 0

    def read_alternatives(self, opened: Piece | None) -> Tree:
        """Read up to the parenthesis that closes `opened`, or to the end."""
        found: list[All] = []
        items: list[Item] = []
        sign: Piece | None = None  # the OR before these items
        while self.next < len(self.pieces):
            piece = self.pieces[self.next]
            self.next += 1
            if not piece.is_sign:
                self.add_term(piece, items)
            elif piece.text == OR:
                if not items:
                    self.report_missing(piece)
                    continue
                found.append(tuple(items))
                items, sign = [], piece
            elif piece.text != ")":
                self.add_group(piece, items)
            elif opened is None:
                self.report(piece, "closes nothing. Remove it, or put the word in quotes.")
            else:
                return self.end(found, items, sign)
        if opened is not None:
            self.report(opened, "is never closed. Add “)” where the group ends.")
        return self.end(found, items, sign)

    def end(self, found: list[All], items: list[Item], sign: Piece | None) -> Tree:
        if items:
            found.append(tuple(items))
        elif sign is not None:
            self.report_missing(sign)
        return tuple(found)

    def add_term(self, piece: Piece, items: list[Item]) -> None:
        if not is_balanced(piece.text):
            if GROUPED_VALUE.match(piece.text):
                self.report(piece, "can’t group values. Write agent:a,b or (agent:a OR agent:b).")
                self.skip_group()
            else:
                self.report(piece, "has an open parenthesis. Put it in quotes.")
            return
        self.terms += 1
        if self.terms == MAX_TERMS + 1:
            self.report(piece, f"and later terms are left out: only {MAX_TERMS} can be combined.")
        if self.terms <= MAX_TERMS:
            items.append(piece.text)

    def add_group(self, opened: Piece, items: list[Item]) -> None:
        if opened.text != "(":
            self.report(opened, "excludes nothing. Put the minus before each term inside.")
            self.skip_group()
            return
        if self.depth >= MAX_DEPTH:
            self.report(opened, f"is nested too deep: at most {MAX_DEPTH} levels count.")
            self.skip_group()
            return
        self.depth += 1
        inside = self.read_alternatives(opened)
        self.depth -= 1
        if inside:
            items.append(Group(inside))
        elif self.pieces[self.next - 1].text == ")" and self.pieces[self.next - 2] is opened:
            self.report(opened, "has nothing inside. Remove it, or add a filter.")

    def skip_group(self) -> None:
        depth = 1
        while depth and self.next < len(self.pieces):
            piece = self.pieces[self.next]
            self.next += 1
            if piece.is_sign and piece.text != OR:
                depth += -1 if piece.text == ")" else 1

    def report_missing(self, sign: Piece) -> None:
        self.report(sign, "needs a filter or a word on both sides.")

    def report(self, piece: Piece, text: str) -> None:
        self.problems.append(f"“{piece.text}” at character {piece.at} {text}")


def simplify(tree: Tree) -> Tree:
    """Leave out parentheses that change nothing."""
    alternatives: list[All] = []
    for items in tree:
        simple = simplify_all(items)
        if len(simple) == 1 and isinstance(simple[0], Group):
            alternatives += simple[0].alternatives
        elif simple:
            alternatives.append(simple)
    return tuple(alternatives)


def simplify_all(items: All) -> All:
    found: list[Item] = []
    for item in items:
        if isinstance(item, str):
            found.append(item)
            continue
        inside = simplify(item.alternatives)
        if len(inside) == 1 and may_join(inside[0], [each for each in items if each is not item]):
            found += inside[0]
        elif inside:
            found.append(Group(inside))
    return tuple(found)


def may_join(items: All, others: Sequence[Item]) -> bool:
    # Two terms of one key beside each other mean either value, so they stay apart.
    keys = {key_of(item) for item in items if isinstance(item, str)} - {""}
    return keys.isdisjoint(key for item in others for key in list_keys(item))


def list_keys(item: Item) -> Iterator[str]:
    if isinstance(item, str):
        yield key_of(item)
    else:
        for items in item.alternatives:
            for each in items:
                yield from list_keys(each)


def key_of(token: str) -> str:
    match = TOKEN.fullmatch(token)
    return match["key"].lower() if match and match["key"] else ""


def print_tree(tree: Tree) -> str:
    """Return the text that `parse_tree` reads as this tree."""
    return f" {OR} ".join(" ".join(map(print_item, items)) for items in tree)


def print_item(item: Item) -> str:
    return item if isinstance(item, str) else f"({print_tree(item.alternatives)})"


# ---- changes of a text


def drop_terms(text: str, is_dropped: Callable[[str], bool]) -> str:
    """Return the text without some of the terms that all rows must fit."""
    tree, _ = parse_tree(text)
    if len(tree) > 1:
        return print_tree(tree)
    (items,) = tree or ((),)
    kept = tuple(item for item in items if not (isinstance(item, str) and is_dropped(item)))
    return print_tree(simplify((kept,)))


def add_term(text: str, term: str) -> str:
    """Return the text for the rows that must fit a term, too."""
    return " ".join([*filter(None, [enclose(text)]), term]) if term else text


def enclose(text: str) -> str:
    """Return the text so that terms after it must fit, too."""
    tree, _ = parse_tree(text)
    return f"({text})" if len(tree) > 1 else text


def list_terms(text: str) -> list[str]:
    tree, _ = parse_tree(text)
    return [item for item in tree[0] if isinstance(item, str)] if len(tree) == 1 else []


def replace_terms(text: str, change: Callable[[str], str]) -> str:
    """Return the text with each of its terms changed, also those in groups."""

    def change_all(tree: Tree) -> Tree:
        return tuple(tuple(map(change_item, items)) for items in tree)

    def change_item(item: Item) -> Item:
        return change(item) if isinstance(item, str) else Group(change_all(item.alternatives))

    return print_tree(change_all(parse_tree(text)[0]))


def read_beside(text: str, at: int) -> str:
    """Return the terms that a row must fit, too, if it fits a term at this place of the text.

    >>> read_beside("a:1 (b:2 OR  c:3) d:4", 13)
    'a:1 d:4 c:3'
    """
    tree, _ = parse_tree(f"{text[:at]} {PLACE} {text[at:]}")
    return " ".join(map(print_item, list_beside(tree) or ()))


def list_beside(tree: Tree) -> list[Item] | None:
    for items in tree:
        if PLACE in items:
            return [item for item in items if item != PLACE]
        for item in items:
            if isinstance(item, Group) and (inner := list_beside(item.alternatives)) is not None:
                return [each for each in items if each is not item] + inner
    return None


def join_problems(problems: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(problems))
