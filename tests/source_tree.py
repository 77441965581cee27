"""The product's modules as syntax trees: who calls what, and which SQL stands where."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from django.conf import settings

ROOT = Path(settings.BASE_DIR)
PACKAGES = ("config", "dashboard", "retries", "ledger")
CREATORS = {"create", "bulk_create", "get_or_create", "update_or_create"}


@cache
def trees() -> dict[str, ast.Module]:
    """Return the modules of the product by path; migrations are frozen and left out."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "migrations" not in path.parts
    }


@cache
def nodes(kind: type[ast.AST]) -> Sequence[tuple[str, ast.AST]]:
    """Return the nodes of a kind, each with its module's path."""
    return [
        (path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, kind)
    ]


@cache
def calls() -> Sequence[tuple[str, ast.Call, str]]:
    """Return every call with its module's path and the dotted name of what is called."""
    return [
        (path, node, dotted(node.func))
        for path, node in nodes(ast.Call)
        if isinstance(node, ast.Call)
    ]


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for names and their attributes; `?` stands for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else "?"


@cache
def strings() -> Sequence[tuple[str, str]]:
    """Return every string with its module's path."""
    return [(path, text) for path, tree in trees().items() for text in strings_of(tree)]


def strings_of(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module with single spaces, without docstrings.

    Of an f-string this is the whole text; `{}` stands for its values.
    """
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts |= {value for value in node.values if isinstance(value, ast.Constant)}
            whole = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield " ".join("".join(map(str, whole)).split())
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield " ".join(node.value.split())


def modules_with_sql(pattern: str) -> set[str]:
    """Return the modules in one of whose strings a pattern occurs."""
    return {path for path, text in strings() if re.search(pattern, text, re.I)}


def modules_that_create(model: str) -> set[str]:
    """Return the modules that create rows by a model's manager."""
    created = {f"{model}.objects.{creator}" for creator in CREATORS}
    return {path for path, _, called in calls() if called in created}


def modules_that_update(model: str) -> set[str]:
    """Return the modules that end a chain from a model's manager with `update` or `delete`."""
    return {
        path
        for path, call, _ in calls()
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in {"update", "delete"}
        and chain_root(call) == f"{model}.objects"
    }


def chain_root(node: ast.expr) -> str:
    """Return the `a.b` with which a chain of calls such as `a.b.filter(…).update(…)` begins."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return dotted(node)


def modules_that_write(model: str, table: str) -> set[str]:
    """Return the modules that write a model's rows: in SQL, by its manager or as an instance."""
    return (
        modules_with_sql(rf"\b(insert into|update|delete from) {table}\b")
        | modules_that_create(model)
        | modules_that_update(model)
        | {path for path, _, called in calls() if called == model}
    )


def modules_that_assign(field: str) -> set[str]:
    """Return the modules that set a field of an instance or hand it to a manager's verb."""
    targets = {
        path
        for path, node in nodes(ast.Assign)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and target.attr == field
    }
    verbs = CREATORS | {"update"}
    return targets | {
        path
        for path, call, called in calls()
        if called.rpartition(".")[2] in verbs and any(word.arg == field for word in call.keywords)
    }


def texts(values: list[ast.expr]) -> list[str]:
    """Return those of some expressions that are literal strings."""
    return [
        value.value
        for value in values
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    ]
