"""Steps that other capabilities add to the core's transactions: the core imports none of them."""

from collections.abc import Callable
from typing import Any

from ledger.database.sql import Row
from ledger.journal import Stamp

# After tasks were enqueued over HTTP. Each gets the new rows with their bodies.
AFTER_ENQUEUE: list[Callable[[list[tuple[Row, Any]], Stamp], None]] = []
# After a report has ended an attempt, or spans have brought usage: the attempt with its task as
# they were, and the usage. A step returns whether it has moved the task.
AFTER_REPORT: list[Callable[[Row, dict[str, Any], Stamp], bool]] = []
# An answer that grants more: the escalation and the person's words.
GRANT: list[Callable[[Any, str, Stamp], None]] = []
