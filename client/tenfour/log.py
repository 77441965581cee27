"""The client's log, "tenfour"; `logging` is imported at the first line, as few programs get one."""

from __future__ import annotations

from typing import Any


class Log:
    def info(self, message: str, *args: Any) -> None:
        import logging

        logging.getLogger("tenfour").info(message, *args, stacklevel=2)

    def warning(self, message: str, *args: Any, exc_info: BaseException | None = None) -> None:
        import logging

        logging.getLogger("tenfour").warning(message, *args, exc_info=exc_info, stacklevel=2)


log = Log()
