"""Steps that other capabilities add to the core's transactions: the core imports none of them."""

from collections.abc import Callable
from typing import Any

from ledger.database.sql import Row
from ledger.journal import Stamp

# After tasks were enqueued over HTTP. Each gets the new rows with their bodies.
AFTER_ENQUEUE: list[Callable[[list[tuple[Row, Any]], Stamp], None]] = []
# After a plan was imported, or would be by a dry run: see `retries.plans.importing`. A step returns
# warnings.
AFTER_IMPORT: list[Callable[[Any, Any, Stamp], list[str]]] = []
# After a report has ended an attempt, or a heartbeat or spans have told its usage so far: the task
# as it was, with the `usage_before` of the attempt, and its usage. A step returns whether it has
# moved the task.
AFTER_REPORT: list[Callable[[Row, dict[str, Any], Stamp], bool]] = []
# An answer that grants more: the escalation and the person's words.
GRANT: list[Callable[[Any, str, Stamp], None]] = []


def take_more(row: Row, usage: dict[str, Any], stamp: Stamp) -> bool:
    """Run the steps after a report, and return whether one has moved the report's own task."""
    # They lock rows that many reports share, so they are last in the report's transaction.
    return any([step(row, usage, stamp) for step in AFTER_REPORT])
