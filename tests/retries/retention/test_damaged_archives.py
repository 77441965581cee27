"""What the command `archive` answers to odd names, folders and damaged files."""

from datetime import date
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from retries.retention.archives import Record, open_writer


def run(folder: Path, *arguments: str) -> str:
    """Return the error that the command ends with."""
    with pytest.raises(CommandError) as raised:
        call_command("archive", "--folder", str(folder), *arguments)
    return str(raised.value)


def test_odd_names_and_damaged_files_are_clear_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "archive"
    assert "There are no archives" in run(folder, "show", "03-01:task-3")
    with open_writer(folder, date(2026, 11, 1)) as writer:
        writer.append("tasks", [Record('{"names": ["03-01:task-3"]}', ("03-01:task-3",))])
    for name in ("", "*", "../../etc/passwd", "\0", "\udcff", "03-01:task-", "x" * 10_000):
        error = run(folder, "show", name)
        assert "No record" in error and error.encode(), name
    call_command("archive", "--folder", str(folder), "show", "03-01:task-3")
    assert "03-01:task-3" in capsys.readouterr().out
    data, index = folder / "tasks-2026-11-01.jsonl.gz", folder / "tasks-2026-11-01.index"
    whole = data.read_bytes()
    data.write_bytes(whole[:-5])
    error = run(folder, "show", "03-01:task-3")
    assert "tasks-2026-11-01.jsonl.gz" in error and "another SHA-256" in error
    assert "archive verify" in error
    data.write_bytes(whole)
    for line in (b"{\n", b"[]\n", b'{"offset": 0}\n', b"\xff\n"):
        index.write_bytes(line)
        for verb in (("list",), ("show", "03-01:task-3")):
            assert "tasks-2026-11-01.index can't be read" in run(folder, *verb), line
