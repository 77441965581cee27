"""Backups that claim more than they contain are refused before they cost much."""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.config.local.test_backups import NOT_WHOLE, manage

DAY = "2026-11-23T12:00:00+00:00"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of nothing
# pax headers of a file of eight terabytes, of which the archive has no byte
SPARSE = {"GNU.sparse.size": str(2**43), "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,0"}


def pack(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, text in members:
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return content.getvalue()


def member(name: str, text: bytes = b"", **headers: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.pax_headers = headers
    return info, text


def manifest(digests: object, created_at: object = DAY) -> tuple[tarfile.TarInfo, bytes]:
    text = json.dumps({"sha256": digests, "created_at": created_at})
    return member("manifest.json", text.encode())


DUMP = member("database.dump")
OURS = {"database.dump": EMPTY}
HOSTILE = {
    "a file that is endless elsewhere": pack(
        DUMP, manifest({"../../../../../dev/zero": "", **OURS})
    ),
    "a sparse file": pack(member("database.dump", **SPARSE), manifest(OURS)),
    "a very long header": pack(member("database.dump", comment="x" * 2_000_000), manifest(OURS)),
    "many files": pack(DUMP, *(member(f"file-{n}") for n in range(1_000)), manifest(OURS)),
    "a file twice": pack(DUMP, DUMP, manifest(OURS)),
    "a large file of secrets": pack(DUMP, member("secret_key", b"x" * 100_000), manifest(OURS)),
    "a deeply nested manifest": pack(DUMP, member("manifest.json", b"[" * 60_000)),
    "no digests": pack(DUMP, manifest([1])),
    "no time": pack(DUMP, manifest(OURS, created_at=5)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_backup_is_refused_with_one_sentence(what: str, tmp_path: Path) -> None:
    file, data = tmp_path / "hostile.backup", tmp_path / "data"
    file.write_bytes(HOSTILE[what])
    refused: subprocess.CompletedProcess[str] = manage(data, "restore", file)
    assert refused.returncode == 1 and refused.stderr.strip() == f"{file} {NOT_WHOLE}"
    assert not data.exists()


def test_a_small_backup_of_its_own_form_is_accepted_by_the_same_checks(tmp_path: Path) -> None:
    """Its database is empty, which only PostgreSQL's own tool notices."""
    file, data = tmp_path / "small.backup", tmp_path / "data"
    file.write_bytes(pack(DUMP, manifest(OURS)))
    refused = manage(data, "restore", file)
    assert refused.returncode == 1 and refused.stderr.startswith("pg_restore failed:")
    assert not data.exists()
