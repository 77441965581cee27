"""Schemas of what an agent sends about an attempt, and of the decisions it gets."""

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import AwareDatetime, Field, StrictBool, StrictInt, model_validator

from ledger.schemas.shapes import ID, Part, Shape, field
from ledger.schemas.shared import In
from ledger.sessions.limit_records import MOST_RECORDS
from ledger.states import FailureType
from ledger.tasks.spec import LEASE_S
from ledger.values.account_windows import LimitWindow
from retries.attempts.checks.reported import COMMAND_LENGTH, FOLDER_LENGTH, MAX_CHECKS
from retries.attempts.diffs import MOST_DIFF, MOST_FACTS
from retries.attempts.endings import SeenBy, Unknown
from retries.attempts.executor_results import read_result
from retries.attempts.exit_codes import ExitOf
from retries.attempts.questions import QUESTION_LENGTH
from retries.attempts.report_fields import (
    MAX_RETRY_AFTER_S,
    MODEL_LENGTH,
    MOST_SUSPECTS,
    MOST_TOKENS,
    MOST_USD,
)
from retries.live_output.pieces import PIECE_BYTES


class LimitIn(In):
    """How much of one window of the account's limits is used."""

    window: LimitWindow = Field(description="five_hours, week or credit")
    used: float = Field(ge=0, le=1, description="the share that is used; 1 if calls are refused")
    resets_at: AwareDatetime | None = Field(None, description="when the window resets")


class UsageFields(Schema):
    input_tokens: int | None = Field(
        None, ge=0, le=MOST_TOKENS, description="tokens that the model read, cached ones included"
    )
    cached_tokens: int | None = Field(
        None, ge=0, le=MOST_TOKENS, description="of the input tokens, those read from a cache"
    )
    cache_write_tokens: int | None = Field(
        None, ge=0, le=MOST_TOKENS, description="of the input tokens, those written to a cache"
    )
    output_tokens: int | None = Field(
        None, ge=0, le=MOST_TOKENS, description="tokens that the model wrote"
    )
    cost_usd: float | None = Field(
        None, ge=0, le=MOST_USD, allow_inf_nan=False, description="what it cost, in US dollars"
    )
    model: str = Field("", max_length=MODEL_LENGTH, description="the model's name")


class UsageIn(
    In, UsageFields, example={"input_tokens": 52_100, "output_tokens": 1_840, "cost_usd": 0.21}
):
    pass


class HeartbeatIn(In, example={"progress": {"message": "wrote tests", "percent": 40}}):
    progress: dict[str, Any] | None = Field(
        None, description="any object, usually with message, percent, and details"
    )
    output: str | None = Field(
        None,
        max_length=65_536,
        description="the last lines of what the command has printed; at most 4 KiB are stored, and "
        "the task's page shows them",
    )
    extend_s: StrictInt | None = Field(
        None,
        ge=LEASE_S[0],
        le=LEASE_S[1],
        description="seconds of the new lease; the attempt's own if missing",
    )
    diff: str | None = Field(
        None,
        max_length=MOST_DIFF,
        description="what the attempt has changed in the source, as `git diff` prints it; 64 KiB "
        "of whole hunks are stored, without secrets, and the next attempt reads them",
    )
    environment: dict[str, str] | None = Field(
        None,
        max_length=MOST_FACTS,
        description="where it runs: folder, branch, and versions of tools, by name; the next "
        "attempt reads what differs from the last success of the same check",
    )
    check: str = Field(
        "",
        max_length=COMMAND_LENGTH,
        description="the command that checks the work, for comparing environments",
    )
    limits: list[LimitIn] = Field(
        [],
        max_length=len(LimitWindow),
        description="how much of its account's limits is used now, as the headers of the agent's "
        "model say; at 1 the account's agents get no tasks until the reset",
    )
    limit_records: list[dict[str, Any]] = Field(
        [],
        max_length=MOST_RECORDS,
        description="records of the agent's program that tell its account's limits: a "
        "rate_limit_event of stream-json, the status line's input with `rate_limits`, or an object "
        "with the `headers` of its model's answer",
    )
    usage: UsageIn | None = Field(
        None,
        description="the tokens and the cost since the attempt began, in place of what an earlier "
        "heartbeat told; budgets count them at once, and the report's usage replaces them",
    )


class HeartbeatOut(Shape):
    lease_expires_at: datetime = field("when the lease ends without a heartbeat")
    deadline_at: datetime = field("when the attempt times out, heartbeats or not")
    abort_requested: bool = field("true if the agent should stop and report")
    stop_reason: str | None = field(
        "why: abort if a person asked, or budget_used; a failure that is reported then counts as "
        "none"
    )
    pending_instructions: int = field("instructions that wait for the agent")


class OutputIn(In, example={"at": 0, "text": "12 passed\n"}):
    at: StrictInt = Field(
        ge=0, le=2**53, description="the bytes of output, in UTF-8, that come before `text`"
    )
    text: str = Field(
        max_length=PIECE_BYTES,
        description="what the command has printed since; at most 64 KiB, best whole lines",
    )


class OutputNextOut(Shape):
    next: int = field(
        "where the next piece begins; it contains the end of this one again, so that a secret that "
        "two pieces share is masked",
        10,
        given=True,
    )


class OutputQuery(Schema):
    from_: int = Field(
        0, alias="from", ge=0, le=2**53, description="only what ends after this byte"
    )


class OutputPieceOut(Part):
    at: int = field("the bytes that were printed before it", 0)
    size: int = field("its bytes as they were printed", 10)
    left_out: int = field("the bytes before it that are not stored", 0)
    text: str = field("the text without secrets, as a terminal shows it", "12 passed\n")


class AttemptOutputOut(Shape):
    data: list[OutputPieceOut] = field("the stored pieces in their order", given=True)
    next: int = field(
        "send it as `from`: the last piece comes again, because it may have grown", 0, given=True
    )
    is_live: bool = field("false once the attempt is over: then no more comes", given=True)


class SuspectIn(In):
    path: str = Field(max_length=300, description="the file's path")
    line: StrictInt = Field(ge=1, le=100_000_000, description="the line's number")
    function: str = Field("", max_length=120, description="the function that has the line")
    score: float = Field(
        ge=0, le=1, description="1 if each failing test ran the line, and no passing one"
    )


class VerificationIn(In):
    command: str = Field("", max_length=4096, description="the command that ran")
    exit_code: StrictInt = Field(ge=-(2**31), le=2**31 - 1, description="its exit code")
    duration_s: float | None = Field(None, ge=0, description="how long it ran, in seconds")
    output: str = Field("", max_length=4_194_304, description="its output; long text is shortened")
    suspects: list[SuspectIn] = Field(
        default_factory=list,
        max_length=MOST_SUSPECTS,
        description="the lines that the coverage of each test makes suspicious, the most first",
    )


class FailureIn(In):
    type: FailureType | None = Field(None, description="the kind of failure; derived if missing")
    code: str = Field(
        "", max_length=64, description="a short code, such as permission_denied or assertion"
    )
    message: str = Field("", description="the error in one line")
    details: str = Field("", description="the error's details; long text is shortened")
    root_cause_guess: str = Field("", description="what the agent thinks the cause is")
    suggested_fix: str = Field("", description="what the next attempt could do differently")
    non_retryable: StrictBool = Field(False, description="true if another attempt can't succeed")
    retry_after_s: StrictInt | None = Field(
        None, ge=0, le=MAX_RETRY_AFTER_S, description="seconds to wait, as a rate limit asks"
    )


class FileIn(In):
    path: str = Field(max_length=1024, description="the file's path")
    status: str = Field(
        "modified", max_length=64, description="such as modified, created, or partially_modified"
    )
    lines_changed: StrictInt | None = Field(None, ge=0, description="number of changed lines")


class TreeIn(In):
    commit: str = Field(pattern="^[0-9a-f]{7,64}$", description="the commit's hash")
    diff: str | None = Field(
        None,
        pattern="^[0-9a-f]{64}$",
        description="the SHA-256 of what differs from the commit, in hexadecimal; null if nothing",
    )
    files: StrictInt | None = Field(
        None, ge=0, le=10**9, description="number of files that differ from the commit"
    )


class CheckIn(In):
    command: str = Field(
        "",
        max_length=COMMAND_LENGTH,
        description="the command line; empty for the task's verify command",
    )
    cwd: str = Field("", max_length=FOLDER_LENGTH, description="the folder that it ran in")
    exit_code: StrictInt | None = Field(
        None, ge=-(2**31), le=2**31 - 1, description="its exit code; null if that is not known"
    )
    unknown: Unknown | None = Field(None, description="why the exit code is not known")
    seen_by: SeenBy = Field(
        SeenBy.CLIENT,
        description="who saw its result: 'client' for the program that ran it, 'hook' for an "
        "agent's hook, 'agent' for the agent's word, which proves nothing",
    )
    at: AwareDatetime | None = Field(None, description="when it ended; now if missing")
    duration_s: float | None = Field(
        None, ge=0, le=10**9, allow_inf_nan=False, description="how long it ran, in seconds"
    )
    tree: TreeIn | None = Field(None, description="the files that it ran on, if they were read")

    @model_validator(mode="after")
    def check_end(self) -> "CheckIn":
        if self.exit_code is not None and self.unknown is not None:
            raise ValueError("Send exit_code, or why it is unknown, but not both.")
        return self


class ResultIn(
    In,
    example={
        "status": "failure",
        "verification": {"command": "npm test", "exit_code": 1, "output": "1 failed"},
        "failure": {"type": "verification_failed", "message": "1 test failed"},
    },
):
    status: Literal["success", "failure", "blocked"] = Field(description="how the attempt ended")
    summary: str = Field("", description="what was done, in a line or two")
    verification: VerificationIn | None = Field(
        None, description="what the verify command returned"
    )
    failure: FailureIn | None = Field(None, description="what went wrong")
    files_modified: list[FileIn] = Field(
        default_factory=list,
        max_length=500,
        description="files that the attempt changed; an empty "
        "list says that it changed none, and a missing one says nothing",
    )
    learnings: list[str] = Field(
        default_factory=list, max_length=100, description="what the next attempt should know"
    )
    result: Any = Field(None, description="any JSON, stored with the task")
    usage: UsageIn | None = Field(
        None,
        description="the tokens and the cost of the attempt; not part of what makes two reports "
        "the same",
    )
    checks: list[CheckIn] = Field(
        default_factory=list,
        max_length=MAX_CHECKS,
        description="how the commands ended that checked the work, oldest first; 'verification' "
        "counts as one. Not part of what makes two reports the same",
    )
    tree: TreeIn | None = Field(
        None, description="the files that the attempt left, if they were read"
    )
    reclaim: StrictBool = Field(
        False, description="open the next attempt at once if a retry is due"
    )

    @model_validator(mode="before")
    @classmethod
    def read_executor_keys(cls, body: Any) -> Any:
        return read_result(body)


class ExitQuery(UsageFields):
    of: ExitOf = Field(
        ExitOf.COMMAND,
        description="whose exit code it is: 'command' for the agent's own program, which verifies "
        "nothing; 'verification' for the task's verify command",
    )
    reclaim: bool = Field(False, description="open the next attempt at once if a retry is due")


class EvidenceOut(Part):
    line: str = field("the line of the output that tells it; untrusted text")
    known_error: str | None = field("the name of the known error, or null", default=None)
    title: str | None = field("the known error's title, or null", default=None)
    wait_s: float | None = field("the seconds that the error says to wait", default=None)
    same_as: int | None = field(
        "the number of the attempt that failed with the same signature", default=None
    )


class DecisionOut(Shape):
    decision: str = field("done, wait, retry, escalated, blocked, failed, or aborted", "done")
    reason: str = field("why, such as verified, reported, or attempts_left", "verified")
    task: dict[str, Any] = field("the task's new state", {"id": ID, "state": "done", "version": 3})
    evidence: EvidenceOut | None = field(
        "what the decision rests on, if it rests on what the failure says", default=None
    )
    outside_files: dict[str, Any] | None = field(
        "the reported files that are outside of the task's files, if there are any: their count, "
        "and the first 20",
        default=None,
    )
    verdict: dict[str, Any] | None = field(
        "how the report was read: its status and failure type", default=None
    )
    not_before: datetime | None = field("when the retry is due", default=None)
    delay_s: float | None = field("seconds until the retry is due", default=None)
    escalation: dict[str, Any] | None = field(
        "with 'escalated', its id, url, and expires_at", default=None
    )
    retry: dict[str, Any] | None = field("the next attempt, if 'reclaim' opened it", default=None)
    retry_context: str | None = field(
        "with 'retry', the retry context of the next attempt", default=None
    )
    prompt: str | None = field("with 'retry', the prompt of the next attempt", default=None)
    next_action: str | None = field("what to do next, in one sentence", default=None)


class ReleaseIn(In, example={"reason": "shutdown"}):
    reason: Literal["shutdown", "wrong_agent", "user_interrupt"] = Field(
        "shutdown", description="why the agent gives the task back"
    )
    note: str = Field("", max_length=2000, description="a note for the journal")


class ChoiceIn(In):
    name: str = Field(
        min_length=1, max_length=64, description="the value that comes back as the answer"
    )
    title: str = Field("", max_length=200, description="the button's text; the name if it is empty")
    description: str = Field("", max_length=500, description="what the choice means")


class AskIn(
    In,
    example={
        "question": "Drop the table old_invoices? It holds 2 million rows.",
        "options": [{"name": "yes", "title": "Drop it"}, {"name": "no"}],
        "severity": "high",
    },
):
    question: str = Field(
        min_length=1, max_length=QUESTION_LENGTH, description="the question, as plain text"
    )
    options: list[ChoiceIn] = Field(
        default_factory=list, max_length=10, description="answers that a person can choose from"
    )
    response_schema: dict[str, Any] | None = Field(
        None,
        description="a JSON Schema for the answer: a flat object whose properties are strings, "
        "numbers, integers, or booleans",
    )
    severity: Literal["low", "normal", "high"] = Field(
        "normal", description="how urgent the question is"
    )
    client_state: Any = Field(
        None, description="any value, at most 8 KiB, returned unchanged with the answer"
    )
    expires_at: datetime | None = Field(
        None,
        description="when the question expires; requires 'on_expiry', and leaves a person at least "
        "TENFOUR_QUESTION_MIN_SECONDS (300) to answer",
    )
    on_expiry: Literal["retry", "fail"] | None = Field(
        None, description="what to do with the task if there is no answer by then"
    )
