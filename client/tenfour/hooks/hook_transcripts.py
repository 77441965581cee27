"""Send a session's transcript while its agent works: the new lines, at each of its hooks.

How far the server has it is kept on disk. So a server that is away costs nothing: the next hook, or
`tenfour resend`, continues from there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

from tenfour.commands.terminal import complain, note
from tenfour.http.core import Call, Core
from tenfour.http.drivers import Driver
from tenfour.http.problems import ServerAway, TenfourError
from tenfour.sessions.transcripts import Part, describe_skipped, import_part, read_part
from tenfour.settings import Settings
from tenfour.setup.connections import write_private

# Between two tool calls, an agent's hooks send at most this much, this often.
HOOK_BYTES = 256 * 1024
EVERY_S = 3.0
FREQUENT = {"PreToolUse", "PostToolUse", "PostToolUseFailure", "Notification"}
# For each request; an agent waits for it.
TIMEOUT_S = 2.0
# Sessions that ended while the server was down, and are sent by another session's hook.
MOST_OTHERS, OTHERS_S = 2, 1.0
MOST_REQUESTS = 1000
DAYS = 30
REFUSED = {400, 413, 422}

Perform = Callable[[Call[Mapping[str, Any]]], Mapping[str, Any]]


@dataclass(frozen=True)
class Progress:
    """The part of a session's transcript that the server has."""

    path: str
    session: str
    format: str = ""
    attempt: str = ""
    offset: int = 0
    line: int = 1
    sent_at: float = 0.0

    @property
    def is_behind(self) -> bool:
        with suppress(OSError):
            return os.path.getsize(self.path) != self.offset
        return False


class TranscriptStore:
    """The progress of each session, in a folder of its server and token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "transcripts"

    def read(self, session: str) -> Progress | None:
        return self._read(self._file(session))

    def save(self, progress: Progress) -> None:
        write_private(self._file(progress.session), json.dumps(asdict(progress)))

    def list_behind(self) -> Iterator[Progress]:
        """Yield the sessions whose transcript the server does not have whole, oldest first."""
        try:
            files = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        except OSError:
            return
        for path in files:
            found = self._read(path)
            if found is None or time.time() - path.stat().st_mtime > DAYS * 86_400:
                path.unlink(missing_ok=True)
            elif found.is_behind:
                yield found

    @contextmanager
    def locked(self, session: str) -> Iterator[bool]:
        """Yield whether no other hook of the session is sending lines; keep others out."""
        import fcntl

        path = self._file(session).with_suffix(".lock")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(opened)

    def _file(self, session: str) -> Path:
        return self.folder / f"{sha256(session.encode()).hexdigest()[:32]}.json"

    def _read(self, path: Path) -> Progress | None:
        with suppress(OSError, ValueError, TypeError):
            return Progress(**json.loads(path.read_text(encoding="utf-8")))
        return None


def note_transcript(
    store: TranscriptStore, event: Mapping[str, Any], *, format: str, attempt: str
) -> Progress | None:
    """Return the progress of an event's session, with its attempt; None without a transcript."""
    path, session = event.get("transcript_path"), event.get("session_id")
    if not isinstance(path, str) or not isinstance(session, str) or not session:
        return None
    path = os.path.expanduser(path)
    if not path.endswith(".jsonl") or not os.path.isfile(path):
        return None
    known = store.read(session)
    if known is None or known.path != path or os.path.getsize(path) < known.offset:
        known = Progress(path, session)
    # A new prompt may be about something else.
    is_new = event.get("hook_event_name") == "UserPromptSubmit"
    held = attempt or ("" if is_new else known.attempt)
    progress = replace(known, format=format or known.format, attempt=held)
    if progress != known or not known.sent_at:
        store.save(progress)
    return progress


def share_transcript(
    store: TranscriptStore,
    event: Mapping[str, Any],
    given: Settings,
    environ: Mapping[str, str],
    *,
    format: str = "",
    attempt: str = "",
    is_away: bool = False,
) -> None:
    """Send the new lines in the transcript of an event's session; never stops the agent."""
    try:
        progress = note_transcript(store, event, format=format, attempt=attempt)
        if progress is None or is_away or not is_due(progress, str(event["hook_event_name"])):
            return
        with closing(Driver(given, TIMEOUT_S)) as driver:
            core = Core(given, retries=0)
            perform: Perform = lambda call: driver.run(core.perform(call))  # noqa: E731
            until = time.monotonic() + OTHERS_S
            send_next_lines(store, progress, perform, environ)
            if time.monotonic() < until:
                send_others(store, progress.session, perform, environ, until=until)
    except TenfourError as error:
        complain(error, subject="hook: the transcript was not sent")
    except OSError as error:
        note(f"hook: the transcript was not sent: {error}")


def resend_transcripts(folder: Path, perform: Perform, environ: Mapping[str, str]) -> int:
    """Send the unsent lines of all sessions; return the number of requests."""
    return send_others(TranscriptStore(folder), "", perform, environ, most=MOST_REQUESTS)


def is_due(progress: Progress, event_name: str) -> bool:
    """Return whether this hook sends lines; of many in a second, only some do."""
    if event_name == "SessionStart":
        return False
    return event_name not in FREQUENT or time.time() - progress.sent_at >= EVERY_S


def send_next_lines(
    store: TranscriptStore,
    progress: Progress,
    perform: Perform,
    environ: Mapping[str, str],
    *,
    limit: int = HOOK_BYTES,
) -> bool:
    """Send a transcript's next lines; return whether there were any. Raises ServerAway."""
    with store.locked(progress.session) as is_ours:
        if not is_ours:
            return False
        # Another hook may have sent some meanwhile.
        progress = replace(store.read(progress.session) or progress, attempt=progress.attempt)
        part = read_part(
            Path(progress.path), offset=progress.offset, line=progress.line, limit=limit
        )
        if not part.data:
            return False
        send_part(progress, part, perform, environ)
        store.save(replace(progress, offset=part.offset, line=part.next_line, sent_at=time.time()))
        return True


def send_part(progress: Progress, part: Part, perform: Perform, environ: Mapping[str, str]) -> None:
    """Send some lines; lines that the server refuses are left out."""
    params = {
        "external_id": progress.session,
        "format": progress.format,
        "attempt": progress.attempt,
    }
    try:
        done = perform(import_part(part, environ, **params))
    except ServerAway:
        raise
    except TenfourError as error:
        if error.status not in REFUSED:
            raise
        if progress.attempt and any(e.get("pointer") == "/attempt" for e in error.errors):
            send_part(replace(progress, attempt=""), part, perform, environ)
            return
        note(f"hook: some lines of the transcript were refused: {error.sentence}")
        return
    if skipped := describe_skipped(done):
        note(f"hook: {skipped}")


def send_others(
    store: TranscriptStore,
    session: str,
    perform: Perform,
    environ: Mapping[str, str],
    *,
    most: int = MOST_OTHERS,
    until: float = inf,
) -> int:
    """Send the lines that other sessions stored while the server was down; raises ServerAway."""
    count = 0
    for progress in store.list_behind():
        if progress.session == session:
            continue
        while (
            count < most
            and time.monotonic() < until
            and send_next_lines(store, progress, perform, environ)
        ):
            count += 1
    return count
