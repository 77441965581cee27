"""A backup of a running instance, restored into another folder."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from config.local.places import PROJECT
from tests.config.local.test_up import OURS, PATIENCE, Instance

NOT_WHOLE = "is not a whole backup: it was cut short or changed."


def manage(data: Path, *argv: str | Path) -> "subprocess.CompletedProcess[str]":
    env = {k: v for k, v in os.environ.items() if k not in OURS and "TENFOUR_" not in k}
    return subprocess.run(
        [sys.executable, "manage.py", *argv],
        cwd=PROJECT,
        env=env | {"TENFOUR_DATA": str(data)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
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
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def test_a_backup_restores_the_ledger_and_the_secrets_elsewhere(tmp_path: Path) -> None:
    file, other = tmp_path / "tenfour.backup", tmp_path / "other"
    assert "Tenfour is not running in" in manage(tmp_path / "first", "backup", file).stderr

    first = Instance(tmp_path / "first").start()
    try:
        sent = call(first, "/instructions", {"agent": "coder", "content": "Keep this"})
        done = manage(first.data, "backup", file)
        assert done.returncode == 0, done.stderr
        assert file.stat().st_mode & 0o777 == 0o600 and [*tmp_path.glob("*.part")] == []
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

    restored = manage(other, "restore", file)
    assert restored.returncode == 0, restored.stderr
    second = Instance(other).start()
    try:
        assert credentials(other) == known
        assert call(second, f"/instructions/{sent['id']}")["content"] == "Keep this"
        audit = manage(other, "audit_ledger")
        assert audit.returncode == 0, audit.stdout
    finally:
        second.end(signal.SIGINT)
