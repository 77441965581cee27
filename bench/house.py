"""Count the size of the code: lines, modules of a folder, docstrings, and comments.

`LIMITS` are ratchets, which a test holds: a change that lowers a figure lowers its limit.
"""

import ast
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.servers import Sandbox
from config.local.places import PROJECT

SERVER = ("config", "dashboard", "retries", "ledger")
BROWSER = (("templates", "*.html"), ("dashboard/static", "*.css"), ("dashboard/static", "*.js"))
LIMITS = {
    "server: lines of Python without migrations": at_most(126_027),
    "migrations: lines": at_most(4_892),
    "client: lines": at_most(19_699),
    "templates, CSS, and scripts: lines": at_most(26_016),
    "tests: lines of Python": at_most(108_150),
    "modules of the largest folder": at_most(16),
    "functions with a docstring: %": at_most(30.0),
    "comments on 100 lines": at_least(3.4),
}


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Count; no server is used."""
    return [Figure(name, [value], "", LIMITS[name]) for name, value in count_house(PROJECT).items()]


def count_house(root: Path) -> dict[str, float]:
    """Return the figures of a checkout by name."""
    server = [path for path in list_modules(root, SERVER) if "migrations" not in path.parts]
    migrations = [path for path in list_modules(root, SERVER) if "migrations" in path.parts]
    browser = [path for folder, kind in BROWSER for path in (root / folder).rglob(kind)]
    client = list(list_modules(root, ("client",)))
    functions = [each for path in server for each in list_functions(path)]
    documented = sum(ast.get_docstring(each) is not None for each in functions)
    comments = sum(map(count_comments, server))
    lines = count_lines(server)
    return {
        "server: lines of Python without migrations": lines,
        "migrations: lines": count_lines(migrations),
        "client: lines": count_lines(client),
        "templates, CSS, and scripts: lines": count_lines(browser),
        "tests: lines of Python": count_lines(list_modules(root, ("tests",))),
        "modules of the largest folder": count_largest_folder([*server, *client]),
        "functions with a docstring: %": round(100 * documented / len(functions), 1),
        "comments on 100 lines": round(100 * comments / lines, 1),
    }


def list_modules(root: Path, folders: Iterable[str]) -> Iterator[Path]:
    """Yield the modules of some folders; a link is another folder's module.

    Only committed or added ones: a test that runs meanwhile may create others.
    """
    names = run_git("ls-files", *(f"{folder}/*.py" for folder in folders), cwd=root)
    for path in (root / name for name in names.splitlines()):
        if path.exists() and not path.is_symlink():
            yield path


def run_git(*words: str, cwd: Path) -> str:
    return subprocess.run(
        ["git", *words], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout


def count_lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def list_functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def count_comments(path: Path) -> int:
    with path.open("rb") as file:
        return sum(each.type == tokenize.COMMENT for each in tokenize.tokenize(file.readline))


def count_largest_folder(paths: Iterable[Path]) -> int:
    return max(Counter(path.parent for path in paths).values())
