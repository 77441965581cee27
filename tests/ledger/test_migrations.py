"""The migrations that have landed: additive from here on."""

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("migrations.sha256")


def test_landed_migrations_never_change() -> None:
    """Installations have applied these files, so a change to one would never reach them.

    To change the database, add a migration and append its line to the record:
    `sha256sum APP/migrations/NAME.py >> tests/ledger/migrations.sha256`.
    """
    recorded = {path: digest for digest, path in map(str.split, RECORD.read_text().splitlines())}
    found = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in ROOT.glob("*/migrations/[0-9]*.py")
    }
    assert found == recorded
