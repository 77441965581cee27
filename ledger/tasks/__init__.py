"""Create, read, change and stop tasks. `retries` decides what happens after each attempt."""

from ledger.tasks.aborting import abort
from ledger.tasks.changing import Change, change
from ledger.tasks.enqueuing import enqueue, enqueue_many
from ledger.tasks.lineage import fetch_task
from ledger.tasks.spec import Backoff, Spec
