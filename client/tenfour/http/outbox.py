"""Reports on disk until the server has answered them, so that a crash or a reboot loses none.

A report is written before it is first sent. Its idempotency key and the attempt's own record make
sending it twice harmless.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from tenfour.http.core import Call
from tenfour.http.problems import ServerAway, TenfourError
from tenfour.models import Decision
from tenfour.settings import Settings
from tenfour.setup.connections import state_folder

WAITING, REFUSED = ".json", ".refused"
# Refused reports are kept for a person to read, the newest ones.
MOST_REFUSED = 100
# The server knows the attempt, but not this token: another token may be the right one. 429 is
# among them, because that is the status after too many wrong tokens.
NOT_OURS = {401, 403, 404, 429}


@dataclass(frozen=True)
class Report:
    """A report in a file."""

    path: Path
    url: str
    owner: str
    attempt: str
    call: Call[Decision]


@dataclass(frozen=True)
class Sent:
    """The result of a report: a decision, or an error; `waits` while it may still be sent."""

    report: Report
    decision: Decision | None = None
    error: TenfourError | None = None

    @property
    def waits(self) -> bool:
        error = self.error
        return error is not None and (error.retryable or error.status in NOT_OURS)


def folder() -> Path:
    """Return where reports wait; raises OSError for a user without a home folder."""
    try:
        return state_folder(os.environ) / "outbox"
    except RuntimeError as error:
        raise FileNotFoundError(2, "there is no home folder: set TENFOUR_STATE", "~") from error


def is_empty() -> bool:
    """Return whether no report waits here; costs next to nothing."""
    try:
        return not any(name.endswith(WAITING) for name in os.listdir(folder()))
    except OSError:
        return True


def store(attempt: str, call: Call[Decision], settings: Settings) -> Report:
    """Write a report to the disk; raises OSError. Its call then has an idempotency key."""
    call = replace(call, idempotency_key=call.idempotency_key or os.urandom(16).hex())
    where = folder()
    where.mkdir(parents=True, exist_ok=True, mode=0o700)
    where.chmod(0o700)
    name = f"{time.time_ns():020d}-{sha256(attempt.encode()).hexdigest()[:12]}"
    report = Report(where / (name + WAITING), settings.url, owner_of(settings), attempt, call)
    fields = {
        "url": report.url,
        "owner": report.owner,
        "attempt": attempt,
        "path": call.path,
        "body": call.body,
        "media": call.media,
        "idempotency_key": call.idempotency_key,
    }
    _write(report.path, json.dumps(fields))
    return report


def forget(report: Report) -> None:
    """Delete a report that the server has."""
    with suppress(OSError):
        report.path.unlink()


def list_reports(settings: Settings, *, of_any_token: bool = False) -> Iterator[Report]:
    """Yield the reports for this server, oldest first: those of this token, or of any."""
    with suppress(OSError):
        for path in sorted(folder().glob("*" + WAITING)):
            report = _read(path)
            if report is None or report.url != settings.url:
                continue
            if of_any_token or report.owner == owner_of(settings):
                yield report


def send_all(
    perform: Callable[[Call[Decision]], Decision], reports: Iterator[Report]
) -> Iterator[Sent]:
    """Send reports; one that the server refuses is set aside. Ends when the server is down."""
    for report in reports:
        sent = send(perform, report)
        yield sent
        if isinstance(sent.error, ServerAway):
            return


def send(perform: Callable[[Call[Decision]], Decision], report: Report) -> Sent:
    """Send one report."""
    try:
        decision = perform(report.call)
    except TenfourError as error:
        sent = Sent(report, error=error)
        if not sent.waits:
            set_aside(report)
        return sent
    forget(report)
    return Sent(report, decision)


def set_aside(report: Report) -> None:
    """Rename a report that the server refuses, so that it is not sent again, but not lost."""
    with suppress(OSError):
        report.path.rename(report.path.with_suffix(REFUSED))
        for old in sorted(folder().glob("*" + REFUSED))[:-MOST_REFUSED]:
            old.unlink()


def owner_of(settings: Settings) -> str:
    """Return a name for the token that does not reveal it."""
    return sha256(settings.token.encode()).hexdigest()[:16]


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    # Without this, a power cut may lose the name.
    opened = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _read(path: Path) -> Report | None:
    try:
        fields: dict[str, Any] = json.loads(path.read_text())
        call = Call(
            "POST",
            fields["path"],
            Decision.read,
            fields["body"],
            media=fields["media"],
            idempotency_key=fields["idempotency_key"],
        )
        return Report(path, fields["url"], fields["owner"], fields["attempt"], call)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # deleted meanwhile by another command, or not a report
