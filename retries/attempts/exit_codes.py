"""Reports that are nothing but an exit code and what the program printed."""

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from ledger.states import FailureType
from ledger.tokens import Caller
from retries.attempts.finishing import Reply, finish_cleaned, finish_done, verify_of
from retries.attempts.live_attempt import read_attempt
from retries.attempts.report_fields import (
    MESSAGE_LENGTH,
    READ_BYTES,
    VALUE_LENGTH,
    Report,
    clean_output,
    clean_text,
)

# the exit codes of `timeout` and of a program that was killed
KILLED = {124, 137}
MESSAGE_LINES = 5


def finish_with_exit_code(
    attempt_id: UUID, code: int, output: bytes, *, caller: Caller, now: datetime | None = None
) -> Reply:
    """End an attempt with its program's exit code and output: see `finish_attempt`.

    0 is success, and so is the exit code that the task's verify command is expected to have.
    """
    now = now or timezone.now()
    row = read_attempt(attempt_id, caller=caller, now=now)
    report = report_of_exit(
        code,
        clean_output(decode_ends(output), of=len(output)),
        verify=verify_of(row),
        digest=hashlib.sha256(b"%d\n%b" % (code, output)).digest(),
    )
    if report.status == "success" and report.digest:
        digest = report.digest
        if reply := finish_done(attempt_id, report, digest=digest, caller=caller, now=now):
            return reply
    return finish_cleaned(attempt_id, report, caller=caller, now=now)


def report_of_exit(code: int, output: str, *, verify: dict[str, Any], digest: bytes) -> Report:
    """Return the report for an exit code: the verify command's, where the task has one."""
    message = last_lines(output) or f"The program ended with exit code {code}."
    if not verify.get("command"):
        if code == 0:
            return Report(exit_code=0, message=message, digest=digest)
        kind = FailureType.TIMEOUT if code in KILLED else FailureType.EXECUTION_ERROR
        return Report(status="failure", type=kind, message=message, details=output, digest=digest)
    command = clean_text(verify["command"], VALUE_LENGTH)
    verification = {"command": command, "exit_code": code, "output": output}
    # 0 where another code is expected goes on as a success: the decision finds it unverified.
    if code in (0, verify.get("expect_exit", 0)):
        return Report(exit_code=code, message=message, verification=verification, digest=digest)
    return Report(
        status="failure",
        type=FailureType.VERIFICATION_FAILED,
        message=message,
        verification=verification,
        digest=digest,
    )


def decode_ends(output: bytes) -> str:
    """Return as much of an output as is read: whole lines from the start and end of a long one.

    This is more than what is stored, because secrets are redacted before the text is cut.
    """
    if len(output) > READ_BYTES:
        head, tail = output[: READ_BYTES // 4], output[len(output) - READ_BYTES * 3 // 4 :]
        head, tail = head.rpartition(b"\n")[0] or head, tail.partition(b"\n")[2] or tail
        output = head + b"\n" + tail
    return output.decode(errors="replace")


def last_lines(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-MESSAGE_LINES:])[-MESSAGE_LENGTH:]
