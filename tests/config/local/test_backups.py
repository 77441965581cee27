"""A backup of a running instance, restored into another folder."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from config.local import places
from config.local.places import PROJECT
from tests.config.local.test_up import OURS, Instance
from tests.services import copy_migrated
from tests.waiting import PATIENCE_S, wait_until

NOT_WHOLE = "is not a whole backup: it was cut short or changed."


def environment(data: Path) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k not in OURS and "TENFOUR_" not in k}
    return env | {"TENFOUR_DATA": str(data)}


def manage(
    data: Path, *argv: str | Path, most: int = resource.RLIM_INFINITY
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *argv],
        cwd=PROJECT,
        env=environment(data),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )


def credentials(data: Path) -> dict[str, str]:
    lines = (data / "credentials").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def call(instance: Instance, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{instance.port}/v1{path}",
        json.dumps(body).encode() if body else None,
        {
            "Authorization": f"Bearer {credentials(instance.data)['TENFOUR_OPERATOR_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.load(response)


# the tables of the ledger, and which partition of the journal each event is in
NOUNS = ("task", "attempt", "failure", "deadletter", "instruction", "plan", "agent", "token")
TABLES = [f"ledger_{noun}" for noun in NOUNS] + ["retries_escalation", "auth_user"]
PARTITIONS = """select c.relname, pg_get_expr(c.relpartbound, c.oid) from pg_inherits i
    join pg_class c on c.oid = i.inhrelid where i.inhparent = 'ledger_event'::regclass"""
# events in each of the coming months, and one where no month was made yet
EVENTS = """insert into ledger_event (id, project_id, kind, subject_type, subject_id, actor_type)
    select uuidv7(make_interval(days => n)), p.id, 'agent.heard', 'agent', gen_random_uuid(),
    'system' from ledger_project p, generate_series(0, 400, 15) n where p.name = 'default'"""

# as a server has used after some time
USE_NUMBERS = """do $$ begin for n in 1..20000 loop
    perform pg_current_xact_id(); commit; end loop; end $$"""
NEWEST = "select max(tx)::text::bigint from ledger_event"
OF_SUBJECT = "select max(tx)::text::bigint from ledger_event where subject_id = %s"
POSITION = "select tx from retries_streamcursor where name = 'activity'"


def variables(instance: Instance) -> dict[str, str]:
    """Return what an instance tells its processes."""
    lines = (instance.data / "env").read_text().splitlines()
    inherited = {k: v for k, v in os.environ.items() if k not in OURS and "TENFOUR_" not in k}
    return inherited | dict(line.split("=", 1) for line in lines)


def fill(instance: Instance) -> None:
    """Insert rows in every state, and events in every partition of the journal."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.config.older_data", "build"],
        cwd=PROJECT,
        env=variables(instance),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    with psycopg.connect(variables(instance)["DATABASE_URL"], autocommit=True) as conn:
        conn.execute(USE_NUMBERS)
        conn.execute(EVENTS)


def read_rows(instance: Instance) -> set[tuple[str, str]]:
    """Return the key of each row with its table; an event's table is its partition."""
    with psycopg.connect(variables(instance)["DATABASE_URL"]) as conn:
        found = {(name, bounds) for name, bounds in conn.execute(PARTITIONS).fetchall()}
        for table in [*TABLES, "ledger_event"]:
            keys = conn.execute(f"select tableoid::regclass::text, id::text from {table}")
            found |= set(keys.fetchall())
    return found


def read_number(instance: Instance, statement: str, *values: str) -> int:
    with psycopg.connect(variables(instance)["DATABASE_URL"]) as conn:
        row = conn.execute(statement, values).fetchone()
    assert row
    return int(row[0])


def interrupt_restore(data: Path, file: Path) -> None:
    """Kill a restore once it has created the database."""
    homes = (data, places.closed_home(data))
    process = subprocess.Popen(
        [sys.executable, "manage.py", "restore", file], cwd=PROJECT, env=environment(data)
    )
    try:
        wait_until(lambda: any((home / "pg").exists() for home in homes))
    finally:
        process.kill()
        process.wait()


def check_full_disk(data: Path, verb: str, file: Path, *, most: int) -> None:
    """Run the command where no file may grow beyond `most` bytes, as on a disk that is full."""
    refused = manage(data, verb, file, most=most)
    assert refused.returncode == 1 and "failed:" in refused.stderr
    assert "Traceback" not in refused.stderr and NOT_WHOLE not in refused.stderr


def test_a_backup_restores_the_ledger_and_the_secrets_elsewhere(tmp_path: Path) -> None:
    file, other = tmp_path / "tenfour.backup", tmp_path / "other"
    assert "Tenfour is not running in" in manage(tmp_path / "first", "backup", file).stderr

    # The clock of the running instance leaves what `fill` has delivered as it is.
    copy_migrated(tmp_path / "first")
    first = Instance(tmp_path / "first", TENFOUR_INSTRUCTION_MIN_AGE="1000000000").start()
    try:
        sent = call(first, "/instructions", {"agent": "coder", "content": "Keep this"})
        assert manage(first.data, "tick", "journal").returncode == 0  # makes the coming months
        fill(first)
        granted = manage(first.data, "reporting", "grant", "analyst")
        assert "Created the role" in granted.stdout, granted.stderr
        rows, newest = read_rows(first), read_number(first, NEWEST)
        done = manage(first.data, "backup", file)
        assert done.returncode == 0, done.stderr
        assert file.stat().st_mode & 0o777 == 0o600 and [*tmp_path.glob("*.part")] == []
        os.mkfifo(tmp_path / "pipe")
        assert "is not a regular file" in manage(first.data, "backup", tmp_path / "pipe").stderr
        assert (tmp_path / "pipe").is_fifo()
        less = file.stat().st_size - 2_000  # enough for the dump alone
        check_full_disk(first.data, "backup", tmp_path / "second.backup", most=less)
        assert [*tmp_path.glob("second*")] == []
        over_running = manage(first.data, "restore", file)
        assert over_running.returncode == 1
        assert over_running.stderr.startswith("Tenfour is running: http://127.0.0.1:")
        known = credentials(first.data)
    finally:
        first.end(signal.SIGINT)
    assert "has data already" in manage(first.data, "restore", file).stderr

    whole = file.read_bytes()
    for length in (0, 700, len(whole) // 2, len(whole) - 12_000):
        (tmp_path / "cut").write_bytes(whole[:length])
        refused = manage(other, "restore", tmp_path / "cut")
        assert refused.returncode == 1 and refused.stderr.strip().endswith(NOT_WHOLE), length
        assert "Traceback" not in refused.stderr and not other.exists()
    changed = bytearray(whole)
    changed[len(whole) // 3] ^= 1
    (tmp_path / "changed").write_bytes(changed)
    assert manage(other, "restore", tmp_path / "changed").stderr.strip().endswith(NOT_WHOLE)

    check_full_disk(other, "restore", file, most=8_000)
    assert not other.exists()

    interrupt_restore(other, file)
    refused = subprocess.run(
        [sys.executable, "-m", "config.local.up"],
        cwd=PROJECT,
        env=environment(other),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert refused.returncode == 1 and "a restore into it was interrupted" in refused.stderr

    restored = manage(other, "restore", file)
    assert restored.returncode == 0, restored.stderr
    second = Instance(other).start()
    try:
        assert credentials(other) == known
        assert call(second, f"/instructions/{sent['id']}")["content"] == "Keep this"
        assert rows - read_rows(second) == set()
        in_journal = Counter(table for table, _ in rows if table.startswith("ledger_event"))
        assert len(in_journal) >= 4 and min(in_journal.values()) > 1, "months without events"
        # The roles of a server are not in the backup of a database.
        granted = manage(other, "reporting", "grant", "analyst")
        assert "Created the role" in granted.stdout, granted.stderr
        audit = manage(other, "audit_ledger")
        assert audit.returncode == 0, audit.stdout
        # a reader of the journal comes to the new event after those from the backup
        id = call(second, "/instructions", {"agent": "coder", "content": "And this"})["id"]
        new = read_number(second, OF_SUBJECT, id)
        assert new > newest
        wait_until(lambda: read_number(second, POSITION) >= new)
    finally:
        second.end(signal.SIGINT)

    home = places.closed_home(other)
    if home.exists():  # root's tests are in a folder that the servers' user can't enter
        shutil.rmtree(other)
        lost = manage(other, "restore", file)
        assert lost.returncode == 1 and f"{home} has the database of an earlier" in lost.stderr
        assert (home / "pg").exists() and not other.exists()
        places.remove(other)
