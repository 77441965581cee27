"""The house holds: imports, one writer per rule, settings and names that are documented."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from django.conf import settings

from config.celery import app
from dashboard.urls import urlpatterns
from retries import sweeps
from tests.source_tree import (
    ROOT,
    calls,
    dotted,
    modules_that_assign,
    modules_that_create,
    modules_that_write,
    modules_with_sql,
    nodes,
)

# write the states of channels and deliveries
NOTIFICATION_WRITERS = (
    "channels",
    "deliveries/recording",
    "deliveries/redelivery",
    "deliveries/trials",
    "rules/summaries",
)
# deletes tasks that ended long ago, with everything that belongs to them
DELETERS = {"retries/retention/task_rows.py"}


def test_imports_point_one_way() -> None:
    tool = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_module_writes_events() -> None:
    """Others delete those of a project that is deleted, and number them again after a move."""
    assert modules_that_write("Event", "ledger_event") == {
        "ledger/journal.py",
        "ledger/journal_storage/deletion.py",
        "ledger/journal_storage/rebasing.py",
    }
    assert modules_with_sql(r"\binsert into ledger_event\b") == {"ledger/journal.py"}


def test_one_module_writes_states() -> None:
    assert modules_with_sql(r"set state =") == {
        "ledger/moves.py",
        "ledger/sessions/statements.py",
        "retries/failures/grouping.py",
        "retries/retention/projects/move.py",  # of channels in the other installation
    }
    tables = "ledger_(session|message|sessionbatch)"
    written = modules_with_sql(rf"\b(insert into|update|delete from) {tables}\b")
    assert written == {"ledger/sessions/statements.py"}
    for model, table in (
        ("FailurePattern", "retries_failurepattern"),
        ("Grouped", "retries_grouped"),
    ):
        assert modules_that_write(model, table) == {
            "retries/failures/grouping.py",
            "retries/failures/pattern_merging.py",
        } | (DELETERS | {"retries/failures/resigning.py"} if model == "Grouped" else set())
    assert modules_that_write("FailureCount", "retries_failurecount") == {
        "retries/failures/failure_counts.py"
    }
    # small machines whose one writer is the module of their verbs
    notifications = {f"retries/notifications/{name}.py" for name in NOTIFICATION_WRITERS}
    assert modules_that_assign("state") - notifications == {
        "ledger/sessions/tools.py",  # of a copy, which statements.py writes
        "retries/escalations/lifecycle.py",
        "retries/escalations/permission_effects.py",
        "retries/operations/running.py",
        "retries/permissions/requests.py",  # a new request, which a rule may decide
        "retries/permissions/rules.py",
    }


def test_one_module_has_the_names_of_the_genai_conventions() -> None:
    """They are still being developed: a new version of them changes one module."""
    named = {
        path
        for path, node in nodes(ast.Constant)
        if isinstance(node, ast.Constant) and "gen_ai." in str(node.value)
    }
    assert named == {"ledger/tracing/genai_attributes.py"}


def test_one_module_writes_breakers() -> None:
    written = modules_with_sql(r"\b(insert into|update) ledger_breaker\b")
    assert written | modules_that_create("Breaker") == {"retries/breaker.py"}


def test_one_module_writes_dead_letters() -> None:
    assert modules_that_write("DeadLetter", "ledger_deadletter") == {
        "retries/deadletters.py",
        *DELETERS,
    }


def test_each_part_of_an_attempt_has_one_writer() -> None:
    """A claim opens an attempt; a report, a heartbeat and the clock each write their own part."""
    assert modules_with_sql(r"\binsert into ledger_attempt\b") == {"retries/claiming/statements.py"}
    assert modules_with_sql(r"\bupdate ledger_attempt a set outcome\b") == {
        "retries/attempts/fast_path.py",
        "retries/attempts/live_attempt.py",
    }
    assert modules_with_sql(r"\bset context_version\b") == {"retries/retry_context/storing.py"}
    assert modules_that_write("Attempt", "ledger_attempt") == {
        "retries/claiming/attempt_traces.py",
        "retries/attempts/fast_path.py",
        "retries/attempts/finishing.py",  # which attempt followed, for a report that comes twice
        "retries/attempts/heartbeats.py",
        "retries/attempts/leases.py",
        "retries/attempts/live_attempt.py",
        "retries/claiming/statements.py",
        "retries/retry_context/storing.py",
        "retries/traces/storing.py",
        *DELETERS,
    }


def test_one_function_runs_sql() -> None:
    cursors = {"psycopg.Cursor", "psycopg.RawCursor"}
    named = {path for path, node in nodes(ast.Attribute) if dotted(node) in cursors}
    imported = {
        path
        for path, node in nodes(ast.ImportFrom)
        if isinstance(node, ast.ImportFrom)
        and node.module == "psycopg"
        and {f"psycopg.{alias.name}" for alias in node.names} & cursors
    }
    assert named | imported == {"ledger/database/sql.py"}


def test_one_function_decides_who_may_do_what() -> None:
    """`ledger.authorization.permissions.may`, or its twin in SQL; others only show, copy or grant scopes."""
    names = {"scopes", "is_staff", "is_superuser", "has_perm", "has_perms", "user_permissions"}
    read = {
        path
        for path, node in nodes(ast.Attribute)
        if isinstance(node, ast.Attribute) and node.attr in names
    }
    asked = {
        path
        for path, call, _ in calls()
        for keyword in call.keywords
        if keyword.arg in names - {"scopes"}
    }
    assert read | asked == {
        "ledger/authorization/permissions.py",
        "dashboard/tokens/queries.py",  # shows a token's scopes
        "dashboard/tokens/views.py",  # reads the chosen scopes of a new token
        "ledger/api/me.py",  # shows a token's scopes
        "ledger/api/tokens.py",  # grants only those that the caller has
        "ledger/tokens.py",  # grants them
    }
    assert modules_with_sql(r"any\(.*\.scopes\)") == {"ledger/authorization/permissions.py"}


def test_every_page_asks_who_may_open_it() -> None:
    """Each function of a URL pattern is a live page or is guarded, but for signing in and out."""
    for pattern in urlpatterns:
        guards, view = set(), pattern.callback
        while view is not None:
            guards.add(view.__code__.co_qualname if hasattr(view, "__code__") else "")
            view = getattr(view, "__wrapped__", None)
        assert pattern.name in {"sign_in", "sign_out", "join"} or any(
            "guard." in name for name in guards
        ), pattern.name


def test_every_clock_entry_has_a_sweep_and_a_job() -> None:
    import retries.jobs  # noqa: F401 - registers the job

    assert set(settings.CLOCK) == set(sweeps.ENTRIES)
    assert set(app.conf.beat_schedule) | set(settings.FREQUENT) == {"frequent", *sweeps.ENTRIES}
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} <= set(app.tasks)


@pytest.mark.parametrize("pattern", [r"localhost:\d{4}/simple", r"pypi\.", r"registry\.npm"])
def test_nothing_names_a_package_registry(pattern: str) -> None:
    done = subprocess.run(
        ["git", "grep", "-nIE", pattern, "--", ":!tests/test_architecture.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == ""


# ---- rules that had several homes

# Verbs whose documented arguments are `actor` and `now`: docs/names.md lists them.
DOCUMENTED = {
    "acknowledge_instruction",
    "enqueue",
    "mark_blocked",
    "mark_done",
    "mark_failed",
    "mark_retry",
    "mark_running",
    "queue_instruction",
    "queue_instruction_with_ack",
    "retry_unacknowledged",
}


def test_actor_time_and_request_travel_as_one_stamp() -> None:
    found = set()
    for _, node in nodes(ast.FunctionDef):
        assert isinstance(node, ast.FunctionDef)
        names = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
        if {"actor", "now"} <= names:
            found.add(node.name)
    assert found <= DOCUMENTED


def test_no_enum_is_called_state() -> None:
    """`State` stood for five enums in 41 modules."""
    assert "State" not in {
        target.id
        for _, node in nodes(ast.Assign)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert "State" not in {
        alias.asname for _, node in nodes(ast.ImportFrom) for alias in getattr(node, "names", ())
    }


def test_one_function_truncates_with_an_ellipsis() -> None:
    """An ellipsis is joined to a slice in no other place."""
    slices = {
        path
        for path, node in nodes(ast.BinOp)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add)
        and isinstance(node.right, ast.Constant)
        and node.right.value == "…"
        and any(isinstance(part, ast.Slice) for part in ast.walk(node.left))
    }
    assert slices == set()


def test_no_module_is_too_long_to_read() -> None:
    product = ("config", "ledger", "retries", "dashboard", "client", "bench")
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for name in product
        for path in (ROOT / name).rglob("*.py")
        if "migrations" not in path.parts and "build" not in path.parts
    }
    assert len(lengths) > 400
    assert {name: lines for name, lines in lengths.items() if lines > 500} == {}


def test_no_folder_of_the_client_has_too_many_modules() -> None:
    """What belongs together is in a room of its own."""
    sizes = Counter(
        str(path.parent.relative_to(ROOT))
        for path in (ROOT / "client" / "tenfour").rglob("*.py")
        if path.name != "__init__.py"
    )
    assert len(sizes) > 10
    assert {folder: size for folder, size in sizes.items() if size > 16} == {}


# Modules that read the host's clock. It decides nothing in them.
HOST_CLOCK = {
    "config/celery.py": "intervals are counted from it, by the steady clock; a job's age, a metric",
    "config/heartbeat.py": "the age of a file by the clock that wrote it",
    "config/monitoring/platform_metrics.py": "the age of a job by the clocks of two hosts, a metric",
    "config/local/backups.py": "names the time of a backup for a person",
    "ledger/database/server_time.py": "compares it with PostgreSQL's",
}


HOST_CLOCK_READ = re.compile(
    r"(?:\w+\.)?(timezone|datetime|date)\.(now|today|utcnow|localdate)|time\.(time|time_ns|localtime|gmtime)"
)


def test_every_time_that_decides_is_postgresqls() -> None:
    named = {path for path, node in nodes(ast.Attribute) if HOST_CLOCK_READ.fullmatch(dotted(node))}
    imported = {
        path
        for path, node in nodes(ast.ImportFrom)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if HOST_CLOCK_READ.fullmatch(f"{str(node.module).split('.')[-1]}.{alias.name}")
    }
    assert named | imported == set(HOST_CLOCK)


def test_docstrings_name_a_thing_or_an_action() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    clause = re.compile(r"(What|Who|Where|The same|One that|Those that)\b")
    found = [
        (path, text.partition("\n")[0])
        for kind in documented
        for path, node in nodes(kind)
        if isinstance(node, documented) and clause.match(text := ast.get_docstring(node) or "")
    ]
    assert found == []
