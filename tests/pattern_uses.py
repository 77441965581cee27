"""The product's regular expressions: where each is written, how it is used, and what it reads."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tests.source_tree import ROOT

FOLDERS = {
    "config": ROOT,
    "dashboard": ROOT,
    "retries": ROOT,
    "ledger": ROOT,
    "tenfour": ROOT / "client",
}
USES = {"search", "match", "fullmatch", "sub", "subn", "split", "finditer", "findall"}
# The module, or a comment at a pattern, says so where no long text from outside reaches it.
BOUND = re.compile(r"\breads? at most ([\w,]+) (?:characters|bytes)")
START = re.compile(r"\bis matched at the start")
INSIDE = re.compile(r"\breads? no text from outside")


@dataclass(slots=True)
class PatternUse:
    """A pattern with its homes, its uses, and how long a text it reads: None for any length."""

    pattern: re.Pattern[Any]
    homes: list[str] = field(default_factory=list)
    uses: set[str] = field(default_factory=set)
    most: int | None = None
    is_inside: bool = False


class Source:
    """A module with its text and its syntax tree."""

    def __init__(self, path: Path, base: Path) -> None:
        self.name = ".".join(path.relative_to(base).with_suffix("").parts)
        self.name = self.name.removesuffix(".__init__")
        self.lines = path.read_text().splitlines()
        self.tree = ast.parse("\n".join(self.lines))

    @cached_property
    def module(self) -> ModuleType:
        return importlib.import_module(self.name)

    def find_uses(self) -> Iterator[ast.Attribute]:
        """Yield what may be a use of a pattern: `PATTERN.match`, called or handed on."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and node.attr in USES | {"compile"}:
                yield node

    def find_calls(self) -> Iterator[ast.Call]:
        """Yield the calls such as `re.sub("a", "b", text)`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                module, _, name = ast.unparse(node.func).rpartition(".")
                if module == "re" and name in USES:
                    yield node

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression of the module's names; None if it needs others."""
        try:
            return eval(compile(ast.Expression(node), self.name, "eval"), vars(self.module))
        except Exception:
            return None

    def find_statement(self, name: str) -> ast.stmt | None:
        """Return the statement of the module that assigns a name."""
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                return node
        return None

    def read_comments(self, node: ast.AST) -> str:
        """Return the comments above a node and in its lines."""
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        above = first
        while above and self.lines[above - 1].lstrip().startswith("#"):
            above -= 1
        return " ".join(
            [line.strip().removeprefix("# ") for line in self.lines[above:first]]
            + [line.partition("  # ")[2] for line in self.lines[first:last]]
        )

    def declare(self, use: PatternUse, node: ast.AST) -> None:
        """Read what the comments at a pattern's home say about the texts that reach it."""
        text = self.read_comments(node)
        use.is_inside = use.is_inside or bool(INSIDE.search(text))
        docstring = " ".join((ast.get_docstring(self.tree) or "").split())
        if START.search(text) or START.search(docstring):
            use.uses.add("match")
        if found := BOUND.search(text) or BOUND.search(docstring):
            given = found[1].replace(",", "")
            most = int(given) if given.isdigit() else getattr(self.module, given)
            use.most = max(use.most or 0, most)


@cache
def read_sources(package: str) -> list[Source]:
    base = FOLDERS[package]
    return [Source(path, base) for path in sorted((base / package).rglob("*.py"))]


@cache
def find_patterns(package: str) -> list[PatternUse]:
    """Return the patterns of a package."""
    sources = [
        each
        for each in read_sources(package)
        if "migrations" not in each.name.split(".") and any(each.find_uses())
    ]
    found: dict[tuple[Any, int], PatternUse] = {}

    def note(pattern: re.Pattern[Any], home: str) -> PatternUse:
        use = found.setdefault((pattern.pattern, pattern.flags), PatternUse(pattern))
        use.homes.append(home)
        return use

    for source in sources:
        for name, value in list(vars(source.module).items()):
            if (statement := source.find_statement(name)) is None:
                continue
            for pattern, place in walk(value, f"{source.name}.{name}", set()):
                source.declare(note(pattern, place), statement)
    for source in sources:
        for call in source.find_calls():
            assert isinstance(call.func, ast.Attribute)
            if pattern := compile_argument(source, call):
                use = note(pattern, f"{source.name}, line {call.lineno}")
                use.uses.add(call.func.attr)
                source.declare(use, call)
        for node in source.find_uses():
            value = source.evaluate(node.value)
            if isinstance(value, re.Pattern) and (value.pattern, value.flags) in found:
                found[value.pattern, value.flags].uses.add(node.attr)
    return list(found.values())


def compile_argument(source: Source, call: ast.Call) -> re.Pattern[Any] | None:
    """Return the pattern of a call such as `re.sub("a", "b", text)`; None if it is built there."""
    named = {each.arg: each.value for each in call.keywords}
    assert isinstance(call.func, ast.Attribute)
    place = {"sub": 4, "subn": 4, "split": 3}.get(call.func.attr, 2)
    flags = named.get("flags", call.args[place] if len(call.args) > place else None)
    text = source.evaluate(call.args[0])
    return None if text is None else re.compile(text, source.evaluate(flags) if flags else 0)


def find_built_patterns(package: str) -> list[str]:
    """Return the modules that build a pattern where they use it."""
    return [
        source.name
        for source in read_sources(package)
        for call in source.find_calls()
        if compile_argument(source, call) is None
    ]


def walk(value: Any, place: str, seen: set[int]) -> Iterator[tuple[re.Pattern[Any], str]]:
    """Yield the patterns in a value of a module, and in what a function of it encloses."""
    if isinstance(value, re.Pattern):
        yield value, place
        return
    if id(value) in seen or len(seen) > 10_000:
        return
    parts: list[tuple[Any, str]] = []
    if isinstance(value, (tuple, list, set, frozenset)):
        parts = [(each, f"{place}[{n}]") for n, each in enumerate(value)]
    elif isinstance(value, dict):
        parts = [(each, f"{place}[{key!r}]") for key, each in value.items()]
    elif isinstance(value, FunctionType):
        names = value.__code__.co_freevars
        cells = zip(names, value.__closure__ or (), strict=True)
        parts = [(cell.cell_contents, f"{place}.{name}") for name, cell in cells]
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [(getattr(value, each.name), f"{place}.{each.name}") for each in fields(value)]
    seen.add(id(value))
    for part, name in parts:
        yield from walk(part, name, seen)
