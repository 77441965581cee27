"""The specification of a task: its fields, their limits, and the checks of a payload."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic_core import from_json, to_json

from ledger.database import server_time
from ledger.errors import Invalid, PayloadTooLarge
from ledger.models import Task
from ledger.models.task import OnExhausted
from ledger.secrets.redaction import redact, redacted
from ledger.states import EvidenceLevel, RetryOn

TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
TITLE_LENGTH = 200
PAYLOAD_BYTES = 262_144
PRIORITIES = INT4 = (-(2**31), 2**31 - 1)
USUAL_PRIORITY = 0
MAX_ATTEMPTS = 100
LEASE_S = (5, 86_400)
TIMEOUT_S = (1, 604_800)
MAX_NEEDS = 100
MOST_AHEAD = timedelta(days=366)
FIRST_YEAR = 1970
MAX_TASKS_PER_CALL = 500


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait before the next attempt: min(base * factor^n, max), then jitter."""

    base_delay_ms: int = 100
    max_delay_ms: int = 30_000
    exponential_base: float = 2.0
    jitter: bool = True


BACKOFF = tuple(field.name for field in fields(Backoff))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A requested task; a field that is None takes the default from the settings."""

    type: str
    payload: Any = None
    title: str = ""
    priority: int = USUAL_PRIORITY
    needs: Sequence[UUID] = ()
    after: Sequence[int] = ()  # indexes of needed tasks in the same call
    missing: int = 0  # number of further needs that do not exist yet
    max_attempts: int | None = None
    on_exhausted: str | None = None
    evidence: str | None = None  # None: as its plan or its project says
    retry_on: str | None = None  # None: as its pool says
    backoff: Backoff = Backoff()
    lease_s: int | None = None
    timeout_s: int | None = None
    idempotent: bool = True
    non_retryable: bool = False
    not_before: datetime | None = None
    plan_id: UUID | None = None
    ref: str | None = None
    run: int | None = None


# the fields that requests, tasks of plans and rows of tasks name alike
SHARED = (
    "type",
    "payload",
    "title",
    "priority",
    "max_attempts",
    "on_exhausted",
    "evidence",
    "retry_on",
    "lease_s",
    "timeout_s",
    "idempotent",
    "non_retryable",
    "not_before",
)


def spec_of(source: object, **more: Any) -> Spec:
    """Return the spec of an object that has the SHARED fields; `more` sets or replaces others."""
    return Spec(**{name: getattr(source, name) for name in SHARED} | more)


def spec_of_task(task: Task, **more: Any) -> Spec:
    own = {"backoff": backoff_of(task), "plan_id": task.plan_id, "ref": task.ref, "run": task.run}
    return spec_of(task, **own | more)


def backoff_of(source: object) -> Backoff:
    return Backoff(*(getattr(source, name) for name in BACKOFF))


def check(spec: Spec, *, pointer: str) -> None:
    if not TYPE.fullmatch(spec.type):
        raise Invalid(
            f"{pointer}/type",
            "type must have 1 to 64 characters: letters, digits, and . _ : - after the first.",
        )
    if redacted(spec.type) != spec.type:
        raise Invalid(f"{pointer}/type", "type must not contain a secret. Name the kind of work.")
    if len(spec.title) > TITLE_LENGTH:
        raise Invalid(f"{pointer}/title", f"title must have at most {TITLE_LENGTH} characters.")
    backoff = spec.backoff
    check_range(spec.priority, PRIORITIES, pointer, "priority")
    check_range(spec.max_attempts, (1, MAX_ATTEMPTS), pointer, "max_attempts")
    check_range(spec.lease_s, LEASE_S, pointer, "lease_s")
    check_range(spec.timeout_s, TIMEOUT_S, pointer, "timeout_s")
    check_range(backoff.base_delay_ms, (0, 86_400_000), pointer, "backoff/base_delay_ms")
    check_range(backoff.max_delay_ms, (0, 86_400_000), pointer, "backoff/max_delay_ms")
    check_range(backoff.exponential_base, (1, 100), pointer, "backoff/exponential_base")
    if spec.on_exhausted is not None and spec.on_exhausted not in OnExhausted.values:
        raise Invalid(
            f"{pointer}/on_exhausted", "on_exhausted must be 'escalate' or 'dead_letter'."
        )
    if spec.evidence is not None and spec.evidence not in EvidenceLevel.values:
        raise Invalid(f"{pointer}/evidence", "evidence must be 'record', 'ask' or 'require'.")
    check_retry_on(spec.retry_on, f"{pointer}/retry_on")
    check_not_before(spec.not_before, f"{pointer}/not_before")
    if spec.plan_id is None and len(spec.needs) > MAX_NEEDS:
        raise Invalid(f"{pointer}/needs", f"A task can need at most {MAX_NEEDS} other tasks.")


def check_retry_on(value: str | None, pointer: str) -> None:
    if value is not None and value not in RetryOn.values:
        raise Invalid(pointer, "retry_on must be 'any', 'same' or 'other'.")


def check_not_before(value: datetime | None, pointer: str) -> None:
    if value is None:
        return
    if value > server_time.now() + MOST_AHEAD:
        raise Invalid(pointer, f"not_before can be at most {MOST_AHEAD.days} days ahead.")
    if value.year < FIRST_YEAR:
        raise Invalid(pointer, f"not_before must be in {FIRST_YEAR} or later.")


def check_range(value: float | None, limits: tuple[float, float], pointer: str, name: str) -> None:
    if value is not None and not limits[0] <= value <= limits[1]:
        field = name.rpartition("/")[2]
        raise Invalid(
            f"{pointer}/{name}", f"{field} must be a number from {limits[0]} to {limits[1]}."
        )


# ---- the payload

LISTS = {"files", "context", "done"}
VERIFY = {
    "command": str,
    "cwd": str,
    "timeout_s": int,
    "expect_exit": int,
    "text": str,
    "required": bool,
}
VERIFY_LIMITS = {"timeout_s": TIMEOUT_S, "expect_exit": INT4}
TYPE_NAMES = {str: "a string", int: "an integer", bool: "true or false"}


def clean_payload(payload: Any, *, pointer: str) -> tuple[Any, Counter[str]]:
    """Return the payload with its secrets masked, and the number of secrets of each kind.

    The result is what JSON makes of the Python value. Raises PayloadTooLarge, Invalid if a known
    key has the wrong type, and TypeError if the value has no JSON form.
    """
    clean, text = normalize_json(payload)
    if len(text) > PAYLOAD_BYTES:
        raise PayloadTooLarge(
            f"The payload has {len(text)} bytes of JSON; the limit is {PAYLOAD_BYTES}.",
            limit_bytes=PAYLOAD_BYTES,
        )
    if isinstance(clean, dict):
        check_known_keys(clean, pointer=pointer)
    return redact({} if clean is None else clean, as_json=text)


def normalize_json(value: Any) -> tuple[Any, bytes]:
    """Return the value after a round trip through JSON, and its compact JSON in UTF-8."""
    try:
        text = to_json(value)
        return from_json(text), text
    except ValueError:  # lone surrogates and deep nesting, which only Python's own parser accepts
        compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return json.loads(compact), compact.encode(errors="surrogatepass")


def check_known_keys(payload: dict[str, Any], *, pointer: str) -> None:
    if not isinstance(payload.get("action", ""), str):
        raise Invalid(f"{pointer}/action", "action must be a string.")
    for name in LISTS & payload.keys():
        value = payload[name]
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Invalid(f"{pointer}/{name}", f"{name} must be a list of strings.")
    if "verify" not in payload:
        return
    verify = payload["verify"]
    if not isinstance(verify, dict):
        raise Invalid(
            f"{pointer}/verify", "verify must be an object, such as {'command': 'make test'}."
        )
    for name in (name for name in VERIFY if name in verify):
        # `isinstance` would accept true and false as integers
        if type(verify[name]) is not VERIFY[name]:
            expected = TYPE_NAMES[VERIFY[name]]
            raise Invalid(f"{pointer}/verify/{name}", f"{name} must be {expected}.")
        if name in VERIFY_LIMITS:
            check_range(verify[name], VERIFY_LIMITS[name], pointer, f"verify/{name}")


def read_number(ref: str) -> int:
    """Return 3 for `03-01:task-3`."""
    return int(ref.rpartition("-")[2])
