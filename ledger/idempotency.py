"""Handle Idempotency-Key: a request that is sent twice runs once and gets the same response.

The key's row is written in the transaction of the work, so both exist or neither: a second request
waits for the first on the unique index and then finds its response.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
from django.db import OperationalError, connection

from ledger.database import sql
from ledger.errors import Invalid, Refusal
from ledger.secrets.notes import mask_key

RETENTION = timedelta(hours=24)
KEY_LENGTH = 255
KEYS_DELETED = 1000
# A key that a request is reserving again at this moment is skipped.
DELETE_EXPIRED = """delete from ledger_idempotencykey where id = any(array(
    select id from ledger_idempotencykey where expires_at <= %(now)s
    order by expires_at limit %(most)s::int for update skip locked))
returning 1 as one"""


class KeyReused(Refusal):
    """Idempotency key reused"""

    code = "idempotency_key_reused"
    hint = "Use a new key for every new request. Repeat a key only with the identical request."


class InProgress(Refusal):
    """Request in progress"""

    code = "idempotency_in_progress"
    retryable = True
    hint = "Wait a moment and send the same request again."


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The status and body of a response, and whether it was sent before."""

    status: int
    body: str
    replayed: bool = False


def fingerprint_request(method: str, path: str, body: bytes) -> bytes:
    return hashlib.sha256(b"\0".join([method.encode(), path.encode(), body])).digest()


def run_once(
    key: str,
    *,
    token_id: UUID | None,
    fingerprint: bytes,
    now: datetime,
    work: Callable[[], StoredResponse],
) -> StoredResponse:
    """Run `work`, or return the response stored under this key within a day.

    A form of a page has no token, and its key is unique among those of all forms.
    Raises KeyReused if the key belongs to a request with another fingerprint, and InProgress if
    the first request takes too long. An error is not stored: nothing was done, so the request can
    be sent again.
    """
    # The web server passes a header that is not ASCII as an empty one.
    if not key or not key.isprintable() or len(key) > KEY_LENGTH:
        raise Invalid(
            "/Idempotency-Key", f"A key must have 1 to {KEY_LENGTH} printable characters."
        )

    key = mask_key(key, limit=KEY_LENGTH)

    @sql.atomic
    def run() -> StoredResponse:
        with connection.cursor() as cursor:
            cursor.execute("set local lock_timeout = '5s'")
        earlier = reserve_key(key, token_id=token_id, fingerprint=fingerprint, now=now)
        if earlier is not None:
            return earlier
        response = work()
        store_response(key, token_id=token_id, response=response)
        return response

    try:
        return run()
    except OperationalError as error:
        if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
            raise InProgress("The first request with this key has not finished.") from error
        raise


def reserve_key(
    key: str, *, token_id: UUID | None, fingerprint: bytes, now: datetime
) -> StoredResponse | None:
    unique = "(token_id, key)" if token_id else "(key) where token_id is null"
    inserted = sql.run(
        f"""insert into ledger_idempotencykey as k (token_id, key, fingerprint, body, expires_at)
        values (%(token)s, %(key)s, %(fingerprint)s, '', %(until)s)
        on conflict {unique} do update
            set fingerprint = excluded.fingerprint, expires_at = excluded.expires_at, status = null
            where k.expires_at <= %(now)s
        returning id""",
        token=token_id,
        key=key,
        fingerprint=fingerprint,
        until=now + RETENTION,
        now=now,
    )
    if inserted:
        return None
    row = sql.run(
        "select fingerprint, status, body from ledger_idempotencykey "
        f"where {owned_by(token_id)} and key = %(key)s",
        token=token_id,
        key=key,
    )[0]
    if bytes(row["fingerprint"]) != fingerprint:
        raise KeyReused(f"The key '{key}' belongs to a request with another body or URL.")
    return StoredResponse(row["status"], row["body"], replayed=True)


def owned_by(token_id: UUID | None) -> str:
    return "token_id = %(token)s" if token_id else "token_id is null"


def store_response(key: str, *, token_id: UUID | None, response: StoredResponse) -> None:
    sql.run(
        "update ledger_idempotencykey set status = %(status)s, body = %(body)s "
        f"where {owned_by(token_id)} and key = %(key)s",
        token=token_id,
        key=key,
        status=response.status,
        body=response.body,
    )


def delete_expired_keys(now: datetime) -> int:
    """Delete some keys whose responses are no longer repeated; return how many."""
    return len(sql.run(DELETE_EXPIRED, now=now, most=KEYS_DELETED))
