"""Steps that other capabilities add to enqueuing over HTTP: the core imports none of them."""

from collections.abc import Callable
from typing import Any

from ledger.database.sql import Row
from ledger.journal import Stamp

# Each gets the new rows with the bodies that asked for them.
AFTER_ENQUEUE: list[Callable[[list[tuple[Row, Any]], Stamp], None]] = []
