"""Idempotency-Key: the same request sent twice is done once and answered twice.

The key's row is written in the transaction of the work, so both are there or neither: a second
request waits for the first on the unique index and then finds its answer.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
from django.db import OperationalError, connection

from ledger import sql
from ledger.errors import Invalid, Refusal

KEPT_FOR = timedelta(hours=24)
KEY_LENGTH = 255


class KeyReused(Refusal):
    """This key was used for another request"""

    code = "idempotency_key_reused"
    hint = "Use a new key for every new request; repeat a key only with the very same body."


class InProgress(Refusal):
    """The first request with this key is still running"""

    code = "idempotency_in_progress"
    retryable = True
    hint = "Wait a moment and send the same request again."


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it went out: its status and its body."""

    status: int
    body: str
    replayed: bool = False


def fingerprint(method: str, path: str, body: bytes) -> bytes:
    return hashlib.sha256(b"\0".join([method.encode(), path.encode(), body])).digest()


def once(
    key: str, *, token_id: UUID, mark: bytes, now: datetime, work: Callable[[], Answer]
) -> Answer:
    """Do `work`, or give back the answer it had under this key within a day.

    Raises KeyReused when `mark` is another request's, InProgress when the first takes too long. A
    refusal is not kept: nothing was done, so it may be asked again.
    """
    if not key.isprintable() or len(key) > KEY_LENGTH:
        raise Invalid("/Idempotency-Key", f"A key has 1 to {KEY_LENGTH} printable characters.")

    @sql.atomic
    def done() -> Answer:
        with connection.cursor() as cursor:
            cursor.execute("set local lock_timeout = '5s'")
        earlier = claim(key, token_id=token_id, mark=mark, now=now)
        if earlier is not None:
            return earlier
        answer = work()
        keep(key, token_id=token_id, answer=answer)
        return answer

    try:
        return done()
    except OperationalError as error:
        if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
            raise InProgress("The first request with this key has not finished.") from error
        raise


def claim(key: str, *, token_id: UUID, mark: bytes, now: datetime) -> Answer | None:
    """Take the key, or find the answer that was given under it."""
    taken = sql.run(
        """insert into ledger_idempotencykey as k (token_id, key, fingerprint, body, expires_at)
        values (%(token)s, %(key)s, %(mark)s, '', %(until)s)
        on conflict (token_id, key) do update
            set fingerprint = excluded.fingerprint, expires_at = excluded.expires_at, status = null
            where k.expires_at <= %(now)s
        returning id""",
        token=token_id,
        key=key,
        mark=mark,
        until=now + KEPT_FOR,
        now=now,
    )
    if taken:
        return None
    row = sql.run(
        "select fingerprint, status, body from ledger_idempotencykey "
        "where token_id = %(token)s and key = %(key)s",
        token=token_id,
        key=key,
    )[0]
    if bytes(row["fingerprint"]) != mark:
        raise KeyReused(f"The key '{key}' stands for a request with another body or address.")
    return Answer(row["status"], row["body"], replayed=True)


def keep(key: str, *, token_id: UUID, answer: Answer) -> None:
    sql.run(
        "update ledger_idempotencykey set status = %(status)s, body = %(body)s "
        "where token_id = %(token)s and key = %(key)s",
        token=token_id,
        key=key,
        status=answer.status,
        body=answer.body,
    )
