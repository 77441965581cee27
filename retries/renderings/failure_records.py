"""Render `failure-records.yaml` (pure): what is known of each failure, one YAML document each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger.values.text import truncate
from retries.failures.outputs.salience import find_headline
from retries.tasks.labels import format_timestamp, quote

WINDOW = timedelta(days=30)
SUMMARY_LENGTH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """The failure of one attempt, as its report told it."""

    task_id: str
    attempt: int
    at: datetime
    type: str
    message: str
    verification: Mapping[str, Any] | None = None
    root_cause_guess: str = ""
    suggested_fix: str = ""
    files: Sequence[Mapping[str, Any]] = ()


def render_record(failed: FailedAttempt) -> str:
    # The task that the failure belongs to stands before the record.
    paths = ", ".join(quote(str(each.get("path") or "")) for each in failed.files)
    return f"""---
task_id: {quote(failed.task_id)}
failure_record:
  attempt: {failed.attempt}
  timestamp: {quote(format_timestamp(failed.at))}
  failure_type: {quote(failed.type)}

  # From executor result
  executor_output:
    status: "failure"
    files_modified: [{paths}]
    verification:{render_verification(failed.verification)}
    error: {quote(failed.message)}

  # Analysis
  root_cause_guess: {quote(failed.root_cause_guess)}
  suggested_fix: {quote(failed.suggested_fix)}

  # Context for next attempt
  files_state:{render_files(failed.files)}
"""


def render_verification(ran: Mapping[str, Any] | None) -> str:
    if not ran:
        return " null"
    output = str(ran.get("output") or "").strip()
    return (
        f"\n      command: {quote(str(ran.get('command') or ''))}"
        f"\n      exit_code: {json.dumps(ran.get('exit_code'))}"
        f"\n      output_summary: {quote(summarize(output))}"
    )


def summarize(output: str) -> str:
    short = output if len(output) <= SUMMARY_LENGTH else str(find_headline(output))
    return truncate(short, SUMMARY_LENGTH)


def render_files(files: Sequence[Mapping[str, Any]]) -> str:
    if not files:
        return " []"
    return "".join(
        f"\n    - path: {quote(str(each.get('path') or ''))}"
        f"\n      status: {quote(str(each.get('status') or 'modified'))}"
        f"\n      lines_changed: {json.dumps(each.get('lines_changed'))}"
        for each in files
    )
