"""Seed bugs of one changed expression each into small libraries, and run the libraries' own tests.

The sources are downloaded into `build/` from the configured package index, and their digests are
pinned. What the tests print is stored beside them, since every run of one bug prints the same.
"""

import ast
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from bench.servers import MissingDependency
from config.local.places import PROJECT

FOLDER = PROJECT / "build" / "seeded_bugs"
PACKAGES = ("pytest==9.2.0", "coverage==7.11.3")
DOWNLOAD_S, TESTS_S = 300, 60
SEED = 11
PYTEST = ("pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=")
TESTS_FAILED = 1  # pytest's exit code
MOST_SECONDS = 12  # the mutations that are tried as a second bug
FAILING = re.compile(r"^(?:FAILED|ERROR) \S+?::([^\s\[]+)", re.MULTILINE)
# An edit that has nothing to do with the bug: it moves all lines.
UNRELATED = "# A note that changes nothing.\n" * 3
COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Add(),
    ast.Mod: ast.Mult(),
    ast.FloorDiv: ast.Mult(),
    ast.BitOr: ast.BitAnd(),
}


@dataclass(frozen=True)
class Library:
    """A package's sources: where its modules are, and its tests."""

    name: str
    version: str
    digest: str
    modules: str
    tests: str

    @property
    def title(self) -> str:
        return f"{self.name}-{self.version}"


LIBRARIES = (
    Library(
        "parse",
        "1.22.4",
        "706d458feed5a81b02768d3156e8070baf6cee7d150a3a3c0cd43101a875c3b5",
        "parse",
        "tests",
    ),
    Library(
        "toolz",
        "1.2.0",
        "9667a038e9d6ecba37995e26cb2f59ec6420b6ad8dd9677de59db9b956b08490",
        "toolz",
        "toolz/tests",
    ),
    Library(
        "semver",
        "3.1.2",
        "bea193552413194252d33ff26ce0962b76669bd1c6fb17e8e203ac37f072feaf",
        "src/semver",
        "tests",
    ),
)


@dataclass(frozen=True)
class Mutation:
    """A changed expression: its file, its function, the lines, and the new text between offsets."""

    file: str
    function: str
    line: int
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class SeededBug:
    """A bug, and what the tests print: at first, after an unrelated edit, and with a second bug.

    `mutation` has the bug's place at first; `coverage` is the path of the first run's coverage file.
    """

    library: str
    mutation: Mutation
    outputs: list[str]
    coverage: str

    @property
    def file(self) -> str:
        return self.mutation.file

    @property
    def function(self) -> str:
        return self.mutation.function

    @property
    def line(self) -> int:
        return self.mutation.line


# ---- sources


def prepare_library(library: Library, python: Path) -> Path:
    """Return the folder of a library's sources, which are downloaded if they are not there."""
    folder = FOLDER / library.title
    if not folder.is_dir():
        archive = download(library)
        unpacked = FOLDER / f"{library.title}.new"
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # not before 3.11.4
            tar.extractall(unpacked)
        (unpacked / library.title).rename(folder)
        shutil.rmtree(unpacked)
    return folder


def download(library: Library) -> Path:
    """Download a library's sources; raise MissingDependency if they can't be had."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = FOLDER / f"{library.title}.txt"
    wanted.write_text(f"{library.name}=={library.version} --hash=sha256:{library.digest}\n")
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    argv += ["--require-hashes", "--dest", str(FOLDER), "--requirement", str(wanted)]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=DOWNLOAD_S)
    except (subprocess.SubprocessError, OSError) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        raise MissingDependency(f"{library.title} could not be downloaded ({why}).") from error
    return FOLDER / f"{library.title}.tar.gz"


# ---- mutations


def list_mutations(folder: Path, library: Library) -> list[Mutation]:
    """Return the single changes that can be made in the functions of a library."""
    found: list[Mutation] = []
    for path in sorted((folder / library.modules).rglob("*.py")):
        if "tests" not in path.parts and "__main__" not in path.name:
            source = path.read_bytes()
            found += find_mutations(str(path.relative_to(folder)), source)
    return found


def find_mutations(file: str, source: bytes) -> Iterator[Mutation]:
    """Yield the changes of operators, comparisons, constants, conditions, and returned values."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in walk_body(function):
            if (text := change(node)) is None:
                continue
            assert isinstance(node, ast.expr) and node.end_lineno and node.end_col_offset
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            yield Mutation(file, function.name, node.lineno, start, end, text)


def walk_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function's statements, without docstrings and functions within."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.JoinedStr):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        left += ast.iter_child_nodes(node)
        if isinstance(node, ast.Return) and node.value is not None:
            yield ReturnedValue(node.value)


class ReturnedValue(ast.expr):
    """The value of a return statement, which becomes None."""

    def __init__(self, value: ast.expr) -> None:
        self.value = value
        ast.copy_location(self, value)


def change(node: ast.AST) -> str | None:
    """Return the text of a wrong expression in place of this one, if there is one."""
    match node:
        case ReturnedValue():
            is_none = isinstance(node.value, ast.Constant) and node.value.value is None
            return None if is_none else "None"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return f"({ast.unparse(left)} {COMPARISONS[type(operator)]} {ast.unparse(right)})"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            return f"({ast.unparse(ast.BinOp(left, OPERATORS[type(operator)], right))})"
        case ast.BoolOp(op=operator, values=values):
            other = ast.And() if isinstance(operator, ast.Or) else ast.Or()
            return f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"({ast.unparse(operand)})"
        case ast.Constant(value=bool() as value):
            return repr(not value)
        case ast.Constant(value=int() as value):
            return repr(value + 1)
        case ast.Constant(value=str() as value) if value:
            return repr(f"{value}x")
    return None


# ---- runs


def list_bugs(
    library: Library, count: int, python: Path, say: Callable[[str], None]
) -> list[SeededBug]:
    """Return bugs that the library's tests find; they are made if they are not stored."""
    folder = prepare_library(library, python)
    work = FOLDER / f"{library.title}.work"
    stored = FOLDER / f"{library.title}.{digest_of(library)}"
    stored.mkdir(exist_ok=True)
    found: list[SeededBug] = []
    mutations = list_mutations(folder, library)
    random.Random(SEED).shuffle(mutations)
    for number, mutation in enumerate(mutations):
        if len(found) == count:
            break
        file = stored / f"{number}.json"
        if not file.exists():
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(folder, work)
            others = [each for each in mutations if each.function != mutation.function]
            seconds = random.Random(number).sample(others, MOST_SECONDS)
            bug = try_bug(library, work, mutation, seconds, python, stored / f"{number}.gz")
            file.write_text(json.dumps(asdict(bug) if bug else None))
        if told := json.loads(file.read_text()):
            found.append(SeededBug(**told | {"mutation": Mutation(**told["mutation"])}))
            if len(found) % 20 == 0:
                say(f"{library.title}: {len(found)} bugs")
    return found


def digest_of(library: Library) -> str:
    """Return a name for what decides on the bugs: the sources, and this module."""
    return sha256(library.digest.encode() + Path(__file__).read_bytes()).hexdigest()[:12]


def try_bug(
    library: Library,
    work: Path,
    mutation: Mutation,
    seconds: list[Mutation],
    python: Path,
    coverage: Path,
) -> SeededBug | None:
    """Run the tests with a bug, with an unrelated edit, and with a second bug in another function.

    Return None if the tests don't find it.
    """
    broken = apply(work, [mutation])
    first = run_tests(library, work, python, broken, coverage)
    if first is None:
        return None
    moved = {path: UNRELATED.encode() + source for path, source in broken.items()}
    edited = run_tests(library, work, python, moved)
    for other in seconds if edited else []:
        second = run_tests(library, work, python, apply(work, [mutation, other]))
        if second and list_failing(second) != list_failing(first):
            return SeededBug(
                library=library.title,
                mutation=mutation,
                outputs=[first, str(edited), second],
                coverage=str(coverage),
            )
    return None


def apply(work: Path, mutations: list[Mutation]) -> dict[Path, bytes]:
    """Return the changed files by path."""
    changed: dict[Path, bytes] = {}
    # the last one of a file first, so that the offsets of the others stay
    for each in sorted(mutations, key=lambda each: -each.start):
        path = work / each.file
        source = changed.get(path) or path.read_bytes()
        changed[path] = source[: each.start] + each.text.encode() + source[each.end :]
    return changed


def run_tests(
    library: Library,
    work: Path,
    python: Path,
    changed: dict[Path, bytes],
    coverage: Path | None = None,
) -> str | None:
    """Run the tests with changed files, which are restored; return what failing ones print."""
    before = {path: path.read_bytes() for path in changed}
    for path, source in changed.items():
        path.write_bytes(source)
    argv = [str(python), "-m"]
    if coverage:
        settings = work / "coverage.ini"
        settings.write_text("[run]\ndynamic_context = test_function\n")
        argv += ["coverage", "run", f"--rcfile={settings}", f"--source={library.modules}", "-m"]
    argv += [*PYTEST, library.tests]
    try:
        ran = subprocess.run(
            argv, cwd=work, env=tests_env(), capture_output=True, text=True, timeout=TESTS_S
        )
        if ran.returncode != TESTS_FAILED:
            return None
        if coverage:
            write_coverage(work, python, coverage)
    except subprocess.TimeoutExpired:
        return None
    finally:
        for path, source in before.items():
            path.write_bytes(source)
    return ran.stdout


def tests_env() -> dict[str, str]:
    """Return the environment in which a library's tests run."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": ".:src",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }


def write_coverage(work: Path, python: Path, file: Path) -> None:
    """Write the coverage of the last run as compressed JSON, with the tests that ran each line."""
    argv = [str(python), "-m", "coverage", "json", "-q", "--show-contexts", "-o", "-"]
    ran = subprocess.run(argv, cwd=work, check=True, capture_output=True)
    file.write_bytes(gzip.compress(ran.stdout))


def list_failing(output: str) -> set[str]:
    """Return the names of the failing tests, without file and parameters."""
    return {name.rpartition("::")[2] for name in FAILING.findall(output)}
