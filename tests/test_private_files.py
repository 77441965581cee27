"""Every file with texts of a project is closed to other users, whatever the umask is (SEC-9)."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tenfour.setup.connections import write_private

from config.local import places
from retries.management.commands import export
from retries.retention import archives

ROOT = Path(__file__).parents[1]
# Modules that write what every user may read: no text of a project, no secret.
PUBLIC = {
    "client/tenfour/hooks/hook.py": "fills a file that `tenfour run` has made for its hook alone",
    "client/tenfour/setup/init.py": "settings of an agent's program, with the access that they had",
    "config/demo/plan_demo.py": "the demo's tool, which its agents run",
    "config/local/client_wheel.py": "the client's wheel",
    "config/local/install.py": "what is installed in .venv",
    "config/local/supply_chain.py": "lists of packages",
}
# Methods that open a file with the mode that the umask leaves
OPEN_TO_ALL = {"write_text", "write_bytes"}
WRITING = set("wax+")


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Let new files be open to everybody."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def find_modules() -> Iterator[Path]:
    for package in ("client/tenfour", "config", "dashboard", "ledger", "retries"):
        yield from sorted((ROOT / package).rglob("*.py"))


def find_open_writes(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that create a file or a folder without the mode that it shall have."""
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef):
            continue
        calls = [each for each in ast.walk(scope) if isinstance(each, ast.Call)]
        yield from (each.lineno for each in calls if creates_folder(each))
        created = [each.lineno for each in calls if creates_file(each)]
        # a new file gets its mode before anything is written to it
        if created and not any(
            name_of(each) == "fchmod" or opens_with_mode(each) for each in calls
        ):
            yield from created


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def creates_file(call: ast.Call) -> bool:
    if name_of(call) != "open":
        return name_of(call) in OPEN_TO_ALL
    words = ast.unparse(call)
    if words.startswith("os.open("):
        return "O_CREAT" in words and not opens_with_mode(call)
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
    modes = [each.value for each in given if isinstance(each, ast.Constant)]
    return any(isinstance(mode, str) and WRITING & set(mode[:3]) for mode in modes)


def opens_with_mode(call: ast.Call) -> bool:
    """Return whether this is `os.open(path, flags, mode)`."""
    return ast.unparse(call.func) == "os.open" and len(call.args) == 3


def creates_folder(call: ast.Call) -> bool:
    if name_of(call) not in ("mkdir", "makedirs"):
        return False
    return not any(each.arg == "mode" for each in call.keywords)


def test_every_file_is_created_with_a_mode() -> None:
    """A module that writes with the mode of the umask says why everybody may read that."""
    found = {
        str(path.relative_to(ROOT)): sorted(set(find_open_writes(ast.parse(path.read_text()))))
        for path in find_modules()
    }
    assert {path for path, lines in found.items() if lines} == PUBLIC.keys()


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("path.write_text(x)", True),
        ("path.mkdir(parents=True)", True),
        ("open(path, 'w')", True),
        ("path.open('ab')", True),
        ("os.open(path, os.O_CREAT)", True),
        ("os.open(path, os.O_CREAT, 0o600)", False),
        ("open(os.open(path, os.O_CREAT, 0o600), 'w')", False),
        ("path.open('rb')", False),
        ("path.mkdir(mode=0o700)", False),
    ],
)
def test_the_check_finds_what_it_looks_for(source: str, is_found: bool) -> None:
    lines = list(find_open_writes(ast.parse(f"def write():\n    {source}")))
    assert bool(lines) == is_found


def test_modes_do_not_depend_on_the_umask_or_on_earlier_files(
    tmp_path: Path, open_umask: None
) -> None:
    """A file that is replaced does not keep the mode that it had."""
    writers = {
        "client": (lambda path: write_private(path, "x"), 0o600),
        "client_export": (lambda path: write_private(path, "x", mode=0o640), 0o640),
        "server": (lambda path: places.write_private(path, "x"), 0o600),
        "export": (lambda path: export.replace(path, ["x"]), 0o640),
        "archive": (lambda path: archives.open_private(path).close(), 0o640),
    }
    for name, (write, mode) in writers.items():
        new, old = tmp_path / f"{name}.new", tmp_path / f"{name}.old"
        old.write_text("earlier")
        assert old.stat().st_mode & 0o777 == 0o666
        for path in (new, old):
            write(path)
            assert path.stat().st_mode & 0o777 == mode, path
    write_private(tmp_path / "a" / "b" / "c", "x")
    export.make_folder(tmp_path / "d" / "e")
    archives.make_folder(tmp_path / "f" / "g")
    modes = {
        str(path.relative_to(tmp_path)): oct(path.stat().st_mode & 0o777)
        for path in tmp_path.rglob("*")
        if path.is_dir()
    }
    closed, group = oct(0o700), oct(0o750)
    assert modes == {
        "a": closed, "a/b": closed, "d": group, "d/e": group, "f": group, "f/g": group,
    }  # fmt: skip
