"""Changes to Celery's Redis transport."""

from typing import Any

from kombu.transport import redis
from redis.exceptions import ConnectionError as LostConnection


class Channel(redis.Channel):
    """A channel that says when its connection is gone.

    A worker that loses Redis gives up its connection (celery 5.7). Returning or acknowledging a job
    of that connection then failed with an AttributeError, which ended the worker. This error is
    one that Celery expects: the worker reconnects, and the job returns to its queue after the
    visibility timeout, as those of a killed worker do.
    """

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        if self.connection is None or self.connection.client is None:
            raise LostConnection("The connection to Redis is lost.")
        parameters: dict[str, Any] = super()._connparams(asynchronous)  # type: ignore[misc]
        return parameters

    def _create_client(self, asynchronous: bool = False) -> Any:
        # Kombu makes a client for every acknowledgment, which takes longer than sending it.
        if asynchronous:  # these two have a connection of their own
            return super()._create_client(asynchronous)  # type: ignore[misc]
        pool = self.pool  # another thread may replace it meanwhile
        if "client" not in vars(pool):
            pool.client = super()._create_client()  # type: ignore[misc]
        return pool.client


def install() -> None:
    redis.Transport.Channel = Channel
