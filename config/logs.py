"""How a log line looks: plain text on a terminal, one JSON object a line for machines."""

import logging

import structlog
from structlog.typing import Processor

SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def formatter(as_json: bool) -> logging.Formatter:
    """Formats every line of the standard library's loggers, with the request's id where known."""
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if as_json:
        last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        last += [
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            )
        ]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=SHARED, processors=last)
