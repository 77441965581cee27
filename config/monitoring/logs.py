"""Format log lines: plain text for terminals, or one JSON object per line for machines."""

import logging
import threading
import time

import structlog
from redis.exceptions import RedisError
from structlog.typing import EventDict, Processor

from config.postgres.database_errors import OUTAGES, describe
from ledger.secrets.redaction import redacted


def summarize_outage(_logger: object, _method: str, event: EventDict) -> EventDict:
    # During an outage every request would log a traceback, so one sentence replaces it.
    info = event.get("exc_info")
    error = info[1] if isinstance(info, tuple) else None
    if isinstance(error, OUTAGES):
        del event["exc_info"]
        event["error"] = describe(error)
    return event


def join_lines(_logger: object, _method: str, event: EventDict) -> EventDict:
    # An event must be one line of the log.
    if isinstance(event.get("event"), str):
        event["event"] = " ".join(event["event"].split("\n"))
    return event


def mask_secrets(_logger: object, _method: str, event: EventDict) -> EventDict:
    # A request's address or a traceback may contain a secret.
    return redacted(event)


class RedisOutages(logging.Filter):
    """Let one line a minute through about a Redis that is away or full: every job has one."""

    EVERY_S = 60
    LIBRARIES = ("celery", "kombu", "redis")

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.left_out = 0
        self.logged_at = -float("inf")

    def filter(self, record: logging.LogRecord) -> bool:
        error = self.find_error(record)
        if error is None:
            return True
        with self.lock:
            if time.monotonic() - self.logged_at < self.EVERY_S:
                self.left_out += 1
                return False
            more, self.left_out, self.logged_at = self.left_out, 0, time.monotonic()
        record.msg = f"Redis takes no jobs: {' '.join(str(error).split())}"
        if more:
            record.msg += f" ({more} more since the last line)"
        record.args, record.exc_info, record.exc_text = (), None, None
        return True

    def find_error(self, record: logging.LogRecord) -> BaseException | None:
        """Return the error of Redis that a record is about, maybe within errors of Celery."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        while error is not None and type(error).__module__.startswith(self.LIBRARIES):
            if isinstance(error, RedisError):
                return error
            error = error.__cause__ or error.__context__
        return None


SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    summarize_outage,
    join_lines,
]


def formatter(as_json: bool) -> logging.Formatter:
    processors: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        mask_secrets,
    ]
    if as_json:
        processors.append(structlog.processors.JSONRenderer())
    else:
        processors.append(
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            )
        )
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=SHARED, processors=processors)
