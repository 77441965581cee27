"""A failing report reads as one descent: each file on its way is entered once."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from django.conf import settings

from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db

ROOT = Path(settings.BASE_DIR)
VIEW = "retries/api/attempts.py"
# What every verb of the product uses and what does not know what a report is. The way of a report
# is read without opening these.
PLUMBING = (
    "ledger/api/auth.py",  # reads the bearer token before the view
    "retries/schemas/attempts.py",  # reads the body before the view
    "retries/attempts/executor_results.py",  # and the keys of an executor
    "retries/attempts/checks/reported.py",  # writes down how a check ended
    "retries/tasks/outside_files.py",  # compares paths with the files of the task
    "ledger/api/responses.py",  # encodes the response as JSON
    "retries/api/text_responses.py",  # or as text, if the caller asks for text
    "ledger/tokens.py",  # the caller of a statement
    "ledger/database/sql.py",  # runs a statement
    "ledger/database/time_limit.py",  # within its time limit
    "ledger/database/server_time.py",  # PostgreSQL's time
    "ledger/journal.py",  # inserts an event
    "ledger/tracing/spans.py",  # opens a span, if spans are exported
    "ledger/tracing/trace_context.py",  # reads the header of a trace
    "retries/claiming/attempt_traces.py",  # describes an attempt in a span
    "ledger/models/",  # rows
    "ledger/secrets/redaction.py",  # a text without secrets
    "ledger/secrets/forms.py",  # finds them
    "ledger/values/text.py",  # a text cut to its limit
    "ledger/values/timestamps.py",  # a timestamp as JSON
    "retries/failures/outputs/salience",  # scores lines of a text
    "retries/failures/outputs/telling_lines.py",  # chooses lines of a text
    "retries/failures/outputs/excerpts.py",  # shortens a text
    "retries/failures/outputs/failing_tests.py",  # finds a name in a text
    "retries/failures/fingerprints.py",  # computes the identity of a text
    "retries/failures/masks.py",  # replaces what varies in a text
    "retries/failures/known_errors.py",  # finds a common error in a text
    "retries/failures/signatures.py",  # finds what a text names
    "retries/failures/outputs/own_frames.py",  # finds frames of the project in a text
    "retries/failures/outputs/waits.py",  # finds a duration in a text
)


def file_of(frame: FrameType) -> str | None:
    """The product file of a frame, unless it is plumbing."""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(ROOT):
        return None
    name = str(path.relative_to(ROOT))
    is_product = name.startswith(("ledger/", "retries/"))
    return name if is_product and not name.startswith(PLUMBING) else None


def files_entered(act: Callable[[], Any]) -> list[str]:
    """The files that calls enter from another file, in order. A return to the caller is no entry."""
    entered = []

    def note(frame: FrameType, event: str, _: object) -> None:
        name = file_of(frame) if event == "call" else None
        if name is None:
            return
        caller = frame.f_back
        while caller is not None and file_of(caller) is None:
            caller = caller.f_back
        if caller is None or file_of(caller) != name:
            entered.append(name)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return entered


@pytest.mark.parametrize(
    ("task", "decision"),
    [
        ({}, "wait"),
        ({"max_attempts": 1}, "failed"),
        ({"max_attempts": 1, "on_exhausted": "escalate"}, "escalated"),
    ],
)
def test_a_failing_report_enters_each_file_once(
    coder: Any, operator: Any, task: dict[str, Any], decision: str
) -> None:
    """At most 8 files below the view, and none that was left is entered again."""
    said = {"status": "failure", "failure": {"message": "1 failed", "details": "line 3"}}

    def report(attempt: str) -> None:
        assert coder("POST", f"/attempts/{attempt}/result", said).body["decision"] == decision

    for _ in range(2):
        enqueue(operator, **task)
        attempt = claim(coder)["data"][0]["attempt"]["id"]
        entered = files_entered(lambda attempt=attempt: report(attempt))
    # the second report: the first may have filled caches
    view, *below = entered
    assert view == VIEW
    assert len(below) == len(set(below)) and len(set(below)) <= 8, "\n".join(entered)
    assert view not in below
