"""The process that sends the scheduled jobs: Celery's beat."""

import signal
from typing import Any

from celery import beat
from celery.apps.beat import Beat
from django.conf import settings
from django.utils.log import configure_logging


class Clock(Beat):
    """Celery's beat that starts with little and ends by the first signal."""

    def init_loader(self) -> None:
        # The clock sends only the jobs' names. Loading the jobs and the models would double its
        # start's time.
        configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
        assert self.app
        self.app.finalize()

    def install_sync_handler(self, service: beat.Service) -> None:
        """End at SIGTERM or SIGINT, even during a call to Redis."""

        # Celery closes the connection in the handler. The publish that waits on it then raises an
        # error in place of the exit, and the clock never ends. Here the connection is closed
        # afterwards.
        def end(*_: Any) -> None:
            service.stop()  # in case Python drops the exit, as in the callback of a weak reference
            raise SystemExit

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
