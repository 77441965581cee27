"""Unknown variables with our prefix are named, with the nearest known one."""

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.urls import reverse

from config.environment import (
    CLIENT,
    CREDENTIALS,
    INTERNAL,
    KNOWN,
    REMOVED,
    BadSetting,
    read,
    unknown_variables,
)
from config.local.places import PROJECT
from config.setting_table import PREFIX, SETTINGS
from config.settings import CLOCK
from dashboard.frame import replica
from ledger import tokens
from ledger.access import auth_failures
from ledger.api.auth import BODY_BYTES
from retries import breaker
from retries.sessions import processing
from retries.trackers import chat_model
from tests.serving import environment

ROOT = Path(settings.BASE_DIR)
NAME = re.compile(r"\bTENFOUR_[A-Z_]+\b")


def constants(path: Path) -> set[str]:
    """Every string constant of a module that could be the name of a variable of ours."""
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("TENFOUR_")
        and node.value.isupper()
        and not node.value.endswith("_")
    }


def modules() -> list[Path]:
    """Return the modules that may name our variables, but for the table and its reader."""
    folders = ("config", "ledger", "retries", "dashboard", "client/tenfour", "examples")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return [path for path in paths if path.name not in ("environment.py", "setting_table.py")]


@cache
def named_in_code() -> set[str]:
    return set.union(*map(constants, modules())) - {"TENFOUR_URL_TOKEN"}


def reads(path: Path) -> set[str]:
    """Return the settings that a module reads by the names of their environment variables."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(name), *_]):
                found.add(name)
            case ast.Call(func=ast.Attribute(attr="getenv"), args=[ast.Constant(name), *_]):
                found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name("env")), args=[ast.Constant(name), *_]):
                found.add(name)
            case ast.Subscript(slice=ast.Constant(name), ctx=ast.Load()):
                found.add(name)
            case ast.Compare(left=ast.Constant(name), ops=[ast.In() | ast.NotIn()]):
                found.add(name)
    return found & {name for each in SETTINGS.values() for name in each.names}


SERVER_MODULES = [
    path for path in modules() if path.relative_to(ROOT).parts[0] not in ("client", "examples")
]


def test_the_table_has_at_most_65_settings() -> None:
    variables = [name for each in SETTINGS.values() for name in each.names]
    assert len(SETTINGS) <= 65
    # OPS-15: the earlier keys' `_FILE` form is one more than the house allows.
    assert len([name for name in variables if name.startswith(PREFIX)]) <= 66
    assert not REMOVED.keys() & SETTINGS.keys()


def test_no_setting_is_read_from_the_environment_past_the_table(tmp_path: Path) -> None:
    assert {path.name: found for path in SERVER_MODULES if (found := reads(path))} == {}
    past = tmp_path / "past.py"
    past.write_text("import os\nPORT = os.environ.get('TENFOUR_PORT') or os.environ['REDIS_URL']")
    assert reads(past) == {"TENFOUR_PORT", "REDIS_URL"}


def test_every_setting_is_used() -> None:
    """By settings.TENFOUR, or by a name that its reader is given."""
    texts = "".join(path.read_text() for path in SERVER_MODULES)
    unused = [name for name in SETTINGS if not re.search(f"[\"']{name}[\"']", texts)]
    assert unused == []


def test_every_variable_that_the_code_reads_is_known() -> None:
    assert named_in_code() <= KNOWN | {"TENFOUR_GROUPS", "TENFOUR_VERSION"}


def test_every_variable_that_a_script_sets_is_known() -> None:
    """An unknown one would fail `check --deploy`, and with it the run of all checks."""
    scripts = [ROOT / ".ci" / "run", ROOT / "Makefile", ROOT / "tests" / "services.py"]
    named = {name for path in scripts for name in NAME.findall(path.read_text())}
    assert "TENFOUR_REQUIRE_BROWSER" in named and named <= KNOWN


def test_no_name_is_known_that_nothing_reads() -> None:
    others = {PREFIX + name for name in INTERNAL | CREDENTIALS | CLIENT}
    assert others <= named_in_code()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("TASK_MAX_ATTEMPTS", "0", "must be a whole number from 1 to 100, not '0'."),
        ("WEB_THREADS", "many", "must be a whole number from 1 to 1000000000, not 'many'."),
        ("DRAIN_SECONDS", "soon", "must be a number from 0 to 1000000000, not 'soon'."),
        ("PREPARE", "maybe", "must be 1 or 0, not 'maybe'."),
        ("SECRET_KEY", "", "is not set. Start Tenfour with 'make up'"),
    ],
)
def test_a_bad_value_is_refused(
    name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"TENFOUR_{name}", value)
    monkeypatch.delenv("TENFOUR_SECRET_KEY_FILE", raising=False)
    with pytest.raises(BadSetting, match=re.escape(f"TENFOUR_{name} {told}")):
        read(name)


def test_earlier_secret_keys_can_be_in_a_file(tmp_path: Path) -> None:
    """OPS-15: with commas or with a line for each."""
    file = tmp_path / "keys"
    file.write_text("a" * 40 + "\n" + "b" * 40 + "," + "c" * 40 + "\n")
    code = "from config.settings import SECRET_KEY_FALLBACKS as keys; print(*keys)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env=os.environ | {"TENFOUR_SECRET_KEY_FALLBACKS_FILE": str(file)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["a" * 40, "b" * 40, "c" * 40], done.stderr


def test_a_command_does_not_warn_of_constraints() -> None:
    """OPS-11: an upgrade printed 65 such warnings before the lines that matter."""
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=PROJECT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_a_setting_of_an_earlier_version_is_named_and_has_no_effect() -> None:
    """An installation that still sets one starts: `check` only warns."""
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=PROJECT,
        env=os.environ | {"TENFOUR_DB_POOL": "maybe", "TENFOUR_TOKEN_DAYS": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    for name in ("DB_POOL", "TOKEN_DAYS"):
        warning = f"TENFOUR_{name} is no longer a setting: its value is always {REMOVED[name]}."
        assert done.stderr.count(warning) == 1


def test_a_removed_setting_has_the_value_that_its_warning_names() -> None:
    clock = {f"{name}_SECONDS".upper(): seconds for name, seconds in CLOCK.items()}
    constants = clock | {
        "AUTH_FAILURES_PER_MINUTE": auth_failures.PER_MINUTE,
        "BODY_BYTES": BODY_BYTES,
        "BREAKER_SUCCESSES": breaker.SUCCESSES,
        "LLM_MAX_RETRIES": chat_model.MAX_RETRIES,
        "REPLICA_LAG_SECONDS": replica.LAG_S,
        "SESSION_MESSAGE_BUFFER_MAX_OVERFLOW": processing.MAX_OVERFLOW,
        "TOKEN_DAYS": tokens.DEFAULT_DAYS,
    }
    named = {
        name: value for name, value in REMOVED.items() if name not in ("ADMIN_PATH", "DB_POOL")
    }
    assert named == {name: str(constants[name]) for name in named}
    assert reverse("admin:index") == f"/{REMOVED['ADMIN_PATH']}/"


def test_the_changelog_lists_every_removed_setting() -> None:
    listed = set(NAME.findall((ROOT / "CHANGELOG.md").read_text()))
    assert {PREFIX + name for name in REMOVED} <= listed


def test_the_docs_name_no_other_variable() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in NAME.findall(page.read_text())}
    assert named - KNOWN == {"TENFOUR_PUBLISH", "TENFOUR_X"}  # of compose.yaml, and any setting's


@pytest.mark.parametrize(
    ("variables", "hosts"),
    [
        ({}, ["*"]),
        ({"TENFOUR_URL": "https://tenfour.example.org"}, ["tenfour.example.org"]),
        ({"TENFOUR_URL": "https://tenfour.example.org", "TENFOUR_HOSTS": ""}, []),
        ({"TENFOUR_HOSTS": "a.example.org, b.example.org"}, ["a.example.org", "b.example.org"]),
    ],
)
def test_the_hosts_follow_from_the_address_unless_they_are_set(
    variables: dict[str, str], hosts: list[str]
) -> None:
    """Where the list is set and empty, only names of this machine are allowed."""
    bare = {
        "DATABASE_URL": "postgres://x",
        "REDIS_URL": "redis://x",
        "TENFOUR_SECRET_KEY": "x" * 40,
    }
    code = "import json; from config.settings import ALLOWED_HOSTS as a; print(json.dumps(a))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env=bare | variables,
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == [*hosts, "127.0.0.1", "localhost", "[::1]"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TENFOUR_PROT", "Did you mean TENFOUR_PORT?"),
        ("TENFOUR_TASK_MAX_ATEMPTS", "Did you mean TENFOUR_TASK_MAX_ATTEMPTS?"),
        ("TENFOUR_XYLOPHONES_QUUX", "docs/settings.md lists all settings."),
    ],
)
def test_the_nearest_name_is_suggested(name: str, words: str) -> None:
    assert unknown_variables([name, "PATH", "TENFOUR_PORT"]) == [
        f"{name} is not a setting of Tenfour. {words}"
    ]


def test_a_check_of_django_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOUR_PROT", "1")
    found = [message for message in run_checks() if message.id == "tenfour.W001"]
    assert [message.msg for message in found] == [
        "TENFOUR_PROT is not a setting of Tenfour. Did you mean TENFOUR_PORT?"
    ]


def test_the_start_names_it() -> None:
    """A start that is refused for another reason has named the variable before."""
    done = subprocess.run(
        [sys.executable, "-m", "config.local.up"],
        cwd=PROJECT,
        env=environment({"TENFOUR_PROT": "1", "DATABASE_URL": "postgres://x"}),
        capture_output=True,
        text=True,
    )
    assert "Did you mean TENFOUR_PORT?" in done.stderr
    assert "Only DATABASE_URL is set" in done.stderr and done.returncode == 1
