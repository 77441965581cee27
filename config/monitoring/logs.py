"""Format log lines: plain text for terminals, or one JSON object per line for machines."""

import logging

import structlog
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
