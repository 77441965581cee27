"""Import the transcript of a coding agent: a session, and those messages that it lacks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

from ledger import accounts
from ledger.database import sql
from ledger.journal import Stamp
from ledger.models import Agent, Session
from ledger.models.session import TrackerName
from ledger.secrets.redaction import redacted
from ledger.sessions import storing
from ledger.sessions.message_parts import Part, Result, Text, Thinking
from ledger.sessions.storing import MESSAGE_BYTES, NewMessage, Stored
from ledger.sessions.transcripts.model import Transcript, TranscriptMessage
from ledger.tokens import TrustedCaller
from ledger.values.account_windows import LimitSource

# Messages in one statement.
CHUNK = 500
# The longest text of a message that would be too large as a whole.
TEXT_LENGTH = 32_768
CUT = "\n[… cut: {} of {} characters kept]"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: `stored` covers the messages that the session did not have."""

    session: Session
    is_new: bool
    transcript: Transcript
    stored: Stored

    @property
    def added(self) -> int:
        return len(self.stored.message_ids)


@sql.atomic
def import_transcript(
    agent: Agent,
    transcript: Transcript,
    *,
    external_id: str | None = None,
    tracker: str = TrackerName.TODO.value,
    attempt_id: UUID | None = None,
    is_own: bool = False,
    stamp: Stamp,
) -> Imported:
    """Store a transcript in the agent's session with its id, completely or not at all.

    Messages that the session has already are left out, so that a file can be imported again when
    it has grown. The caller announces what was stored.
    """
    session, is_new = storing.create_session(
        agent,
        external_id=external_id or session_id_of(transcript),
        tracker=tracker,
        is_own=is_own,
        stamp=stamp,
    )
    if attempt_id:
        storing.check_attempt(attempt_id, session_id=session.pk)
    stored = Stored(session.pk, session.project_id, [], session.pending_count, 0)
    caller = TrustedCaller(stamp.actor, agent=agent, request_id=stamp.request_id)
    for chunk in split(transcript.messages, CHUNK):
        more = storing.store_new_messages(
            session,
            [new_message(message) for message in chunk],
            caller=caller,
            attempt_id=attempt_id,
            is_own=is_own,
            now=stamp.at,
        )
        stored = replace(
            more,
            message_ids=[*stored.message_ids, *more.message_ids],
            first_order=stored.first_order or more.first_order,
            needs_timer=True,  # the last chunk sees the buffer after the chunks before it
        )
    source = LimitSource(transcript.format)
    accounts.note_windows(agent.pk, transcript.limits, source=source, caller=caller, now=stamp.at)
    session.refresh_from_db()
    return Imported(session, is_new, transcript, stored)


def session_id_of(transcript: Transcript) -> str:
    """Return the id that the program gave the session; old files have their first message's."""
    if transcript.session:
        return transcript.session
    first = transcript.messages[0].digest.hex()[:32] if transcript.messages else "empty"
    return f"{transcript.format}-{first}"


def new_message(message: TranscriptMessage) -> NewMessage:
    parts = message.parts
    if sum(map(size_of, parts)) > MESSAGE_BYTES // 4:
        # Redact before cutting: half a secret matches no pattern.
        parts = tuple(cut_part(part) for part in parts)
    return NewMessage(message.role, parts, message.sent_at, message.digest)


def size_of(part: Part) -> int:
    return len(part.text) if isinstance(part, (Text, Thinking, Result)) else 0


def cut_part(part: Part) -> Part:
    if size_of(part) <= TEXT_LENGTH or not isinstance(part, (Text, Thinking, Result)):
        return part
    text = redacted(part.text)
    kept = text[:TEXT_LENGTH]
    return replace(part, text=kept + CUT.format(len(kept), len(part.text)))


def split(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
