"""Reports that consist of an exit code and the program's output."""

import hashlib
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from ledger.database import server_time
from ledger.states import FailureType
from ledger.tokens import Caller
from ledger.tracing.spans import start_span
from retries.attempts.checks.reported import make_check
from retries.attempts.endings import SeenBy
from retries.attempts.finishing import Reply, finish_cleaned, finish_done, verify_of
from retries.attempts.live_attempt import read_attempt
from retries.attempts.report_fields import (
    MESSAGE_LENGTH,
    READ_BYTES,
    VALUE_LENGTH,
    Report,
    clean_output,
    clean_text,
    clean_usage,
)
from retries.claiming.attempt_traces import trace_report
from retries.decisions import KILLED

MESSAGE_LINES = 5


class ExitOf(StrEnum):
    """The program that ended: the agent's own command, or the task's verify command."""

    COMMAND = "command"
    VERIFICATION = "verification"


def finish_with_exit_code(
    attempt_id: UUID,
    code: int,
    output: bytes,
    *,
    of: ExitOf = ExitOf.COMMAND,
    usage: dict[str, Any] | None = None,
    caller: Caller,
    now: datetime | None = None,
) -> Reply:
    """End an attempt with its program's exit code and output: see `finish_attempt`.

    0 is a command's success, and the expected exit code a verification's. Raises
    VerificationMissing if a command succeeds but the task requires a verification.
    """
    now = now or server_time.now()
    row = read_attempt(attempt_id, caller=caller, now=now)
    text = clean_output(decode_ends(output))
    digest = hashlib.sha256(b"%b %d\n%b" % (of.encode(), code, output)).digest()
    if of == ExitOf.VERIFICATION:
        check = make_check("", exit_code=code, seen_by=SeenBy.CLIENT, at=now)
        report = report_of_verification(code, text, verify=verify_of(row), digest=digest)
        report = replace(report, checks=[check])
    else:
        report = report_of_command(code, text, digest=digest)
    report = replace(report, usage=clean_usage(usage))
    with start_span("tenfour.report") as span:
        reply = None
        if report.status == "success" and report.digest:
            digest = report.digest
            reply = finish_done(attempt_id, report, digest=digest, caller=caller, now=now)
        if reply is None:
            reply = finish_cleaned(attempt_id, report, caller=caller, now=now)
        trace_report(span, attempt_id, reply.decision)
    return reply


def report_of_command(code: int, output: str, *, digest: bytes) -> Report:
    # The agent's own command verifies nothing.
    if code == 0:
        return Report(message=last_lines(output), digest=digest)
    return Report(
        status="failure",
        type=FailureType.TIMEOUT if code in KILLED else FailureType.EXECUTION_ERROR,
        message=last_lines(output) or f"The program ended with exit code {code}.",
        details=output,
        digest=digest,
    )


def report_of_verification(
    code: int, output: str, *, verify: dict[str, Any], digest: bytes
) -> Report:
    command = clean_text(verify.get("command", ""), VALUE_LENGTH)
    # 0 where another code is expected counts as a success: the decision finds it unverified.
    passed = code in (0, verify.get("expect_exit", 0))
    return Report(
        status="success" if passed else "failure",
        type=None if passed else FailureType.VERIFICATION_FAILED,
        exit_code=code,
        message=last_lines(output),
        verification={"command": command, "exit_code": code, "output": output},
        digest=digest,
    )


def decode_ends(output: bytes) -> str:
    """Return an output as text: of a long one, whole lines from its start and its end."""
    if len(output) > READ_BYTES:
        head, tail = output[: READ_BYTES // 4], output[len(output) - READ_BYTES * 3 // 4 :]
        head, tail = head.rpartition(b"\n")[0] or head, tail.partition(b"\n")[2] or tail
        output = head + b"\n" + tail
    return output.decode(errors="replace")


def last_lines(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-MESSAGE_LINES:])[-MESSAGE_LENGTH:]
