"""Create sessions and append messages to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic_core import to_json

from ledger.access.daily_limits import (
    ROW_BYTES,
    count_session_bytes,
    session_refusal,
    session_values,
)
from ledger.database import server_time, sql
from ledger.errors import Invalid, NotFound, PayloadTooLarge
from ledger.journal import Stamp
from ledger.models import Agent, Attempt, Message, Session
from ledger.models.session import TrackerName
from ledger.secrets.forms import LONGEST_SECRET
from ledger.secrets.notes import mask_key
from ledger.secrets.redaction import redact, redacted, titled
from ledger.sessions.message_parts import Part, Text, parts_as_json
from ledger.sessions.statements import CREATE, STORE, STORE_SINGLE
from ledger.sessions.transcripts.program_texts import is_of_program
from ledger.tokens import Bearer, Caller, TrustedCaller, require_caller
from ledger.values.text import truncate

# How exact a session's last activity is while its agent works. PostgreSQL writes to all indexes of
# a row if an indexed column changes, and that doubled the time to store a message.
SLACK = timedelta(seconds=5)
MOST_MESSAGES = 100
MESSAGE_BYTES = 1024 * 1024
EXTERNAL_ID_LENGTH, TITLE_LENGTH, METADATA_BYTES = 200, 160, 16_384


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be stored; `digest` identifies one that may be imported again."""

    role: str
    parts: Sequence[Part]
    sent_at: datetime | None = None
    digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored rows: the session, its new messages, and how many wait in its buffer.

    They need a timer if the buffer was empty before them, or if it is being emptied.
    """

    session_id: UUID
    project_id: UUID
    message_ids: list[UUID]
    pending: int
    first_order: int
    needs_timer: bool = True


@sql.atomic
def create_session(
    agent: Agent,
    *,
    external_id: str | None = None,
    tracker: str = TrackerName.TODO.value,
    disable_task_tracking: bool = False,
    metadata: dict[str, Any] | None = None,
    title: str = "",
    is_own: bool = False,
    stamp: Stamp,
) -> tuple[Session, bool]:
    """Return the agent's session with this external id, and whether this call created it.

    Without an external id, every call creates a session. `is_own` says that the agent's own token
    asks; what it stores counts for its day.
    """
    if tracker not in TrackerName.values:
        raise Invalid("/tracker", f"tracker is one of: {', '.join(TrackerName.values)}.")
    external_id = check_external_id(external_id)
    hidden = redacted(metadata or {})
    size = len(to_json(hidden))
    if size > METADATA_BYTES:
        raise Invalid("/metadata", f"metadata may have at most {METADATA_BYTES} bytes.")
    caller = TrustedCaller(stamp.actor, agent=agent, request_id=stamp.request_id)
    if is_own:
        count_session_bytes(agent, 0, now=stamp.at)  # locks the count before the session
    rows = sql.run(
        CREATE,
        external_id=external_id,
        tracker=tracker,
        disabled=disable_task_tracking,
        metadata=Jsonb(hidden),
        title=cut_title(title),
        now=stamp.at,
        **caller.params,
    )
    sessions = Session.objects.select_related("agent")
    if rows:
        if is_own:
            count_session_bytes(agent, ROW_BYTES + size, now=stamp.at)
        return sessions.get(pk=rows[0]["id"]), True
    return sessions.get(agent=agent, external_id=external_id), False


def check_external_id(external_id: str | None) -> str | None:
    if external_id is None:
        return None
    if not external_id.strip() or len(external_id) > EXTERNAL_ID_LENGTH:
        raise Invalid(
            "/external_id", f"external_id must have 1 to {EXTERNAL_ID_LENGTH} characters."
        )
    if not external_id.isprintable():
        raise Invalid("/external_id", "external_id must have no invisible characters.")
    return mask_key(external_id, limit=EXTERNAL_ID_LENGTH)


def cut_title(text: str) -> str:
    start = redacted(text[: 4096 + LONGEST_SECRET])[:4096]
    return truncate(" ".join(titled(start).split()), TITLE_LENGTH)


def store_messages(
    session_id: UUID,
    messages: Sequence[NewMessage],
    *,
    caller: Caller,
    attempt_id: UUID | None = None,
    now: datetime | None = None,
) -> Stored:
    """Append messages to a session that the caller may write to; raises NotFound for others.

    Secrets are masked before anything is stored. The caller announces them afterwards:
    see `retries.sessions.buffering.announce`.
    """
    now = now or server_time.now()
    given = [message_row(message) for message in messages]
    newest = min(now, max(message.sent_at or now for message in messages))
    found = sql.run(
        (STORE_SINGLE if len(given) == 1 else STORE)[caller.__class__],
        session=session_id,
        **(single_values(given[0]) if len(given) == 1 else {"messages": Jsonb(given)}),
        **(session_values(size_of(given), now=now) if isinstance(caller, Bearer) else {}),
        count=len(given),
        title=title_of(messages),
        attempt=attempt_id,
        newest=newest,
        slack=SLACK if newest == now else timedelta(0),
        now=now,
        **caller.params,
    )
    rows = require_caller(found, caller, now)
    if not rows:
        raise session_refusal(now) if found[0]["is_over"] else session_not_visible(session_id)
    row = rows[0]
    return Stored(
        row["id"],
        row["project_id"],
        row["message_ids"],
        row["pending_count"],
        row["before"] + 1,
        row["needs_timer"],
    )


@sql.atomic
def store_new_messages(
    session: Session,
    messages: Sequence[NewMessage],
    *,
    caller: TrustedCaller,
    attempt_id: UUID | None = None,
    is_own: bool = False,
    now: datetime | None = None,
) -> Stored:
    """Append the messages whose digest the session does not have yet.

    `is_own` says that the agent's own token stores them, as in `create_session`.
    """
    now = now or server_time.now()
    if is_own:
        count_session_bytes(session.agent, 0, now=now)  # locks the count before the session
    # Locks the row first: a concurrent import of the same file waits here, and then sees them.
    locked = Session.objects.select_for_update().filter(
        pk=session.pk, project_id=caller.params["project"]
    )
    for found in locked:
        digests = [message.digest for message in messages if message.digest]
        known = {
            bytes(digest)
            for digest in Message.objects.filter(session=found, digest__in=digests).values_list(
                "digest", flat=True
            )
            if digest
        }
        new: list[NewMessage] = []
        for message in messages:
            if message.digest is None or message.digest not in known:
                new.append(message)
                known |= {message.digest} if message.digest else set()
        if not new:
            return Stored(found.pk, found.project_id, [], found.pending_count, 0)
        if is_own:
            more = size_of([message_row(message) for message in new])
            count_session_bytes(session.agent, more, now=now)
        return store_messages(found.pk, new, caller=caller, attempt_id=attempt_id, now=now)
    raise session_not_visible(session.pk)


def size_of(given: Sequence[dict[str, Any]]) -> int:
    return sum(ROW_BYTES + len(to_json(row["content"])) for row in given)


def message_row(message: NewMessage) -> dict[str, Any]:
    content, found = redact(parts_as_json(message.parts))
    row: dict[str, Any] = {"role": message.role, "content": content}
    if found:
        row["redactions"] = dict(found)
    if message.digest:
        row["digest"] = message.digest.hex()
    if message.sent_at:
        row["sent_at"] = message.sent_at.isoformat()
    return row


def single_values(row: dict[str, Any]) -> dict[str, Any]:
    digest = row.get("digest")
    return {
        "role": row["role"],
        "content": Jsonb(row["content"]),
        "imported": bytes.fromhex(digest) if digest else None,
        "redactions": Jsonb(row.get("redactions", {})),
        "sent_at": row.get("sent_at"),
    }


def title_of(messages: Sequence[NewMessage]) -> str:
    # A session gets its title from a person's first prompt.
    for message in messages:
        if message.role == "user":
            for part in message.parts:
                if isinstance(part, Text) and part.text.strip() and not is_of_program(part.text):
                    return cut_title(part.text)
    return ""


def check_size(size: int, *, pointer: str) -> None:
    if size > MESSAGE_BYTES:
        raise PayloadTooLarge(
            f"The message at {pointer} has {size} bytes; at most {MESSAGE_BYTES} are allowed.",
            limit_bytes=MESSAGE_BYTES,
        )


def check_attempt(attempt_id: UUID, *, session_id: UUID) -> None:
    """Raise Invalid unless the attempt belongs to the session's agent."""
    agents = Session.objects.filter(pk=session_id).values("agent_id")
    if not Attempt.objects.filter(pk=attempt_id, agent_id__in=agents).exists():
        raise Invalid("/attempt", f"No attempt {attempt_id} of this session's agent is known.")


def session_not_visible(session_id: object) -> NotFound:
    return NotFound(f"No session with id {session_id} is visible to this token.")
