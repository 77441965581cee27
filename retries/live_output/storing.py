"""Store and read what a live attempt prints, piece by piece."""

import sys
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ledger.database import server_time, sql
from ledger.errors import Invalid
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller, require_caller, select_unseen
from retries.attempts.live_attempt import IS_LIVE, lease_lost, own_attempt, read_attempt
from retries.live_output.pieces import MOST_OPEN_BYTES, PIECE_BYTES, Piece, add_to_pieces

FIRST_BYTES, FIRST_PIECES = 65_536, 64
NEWEST_BYTES, NEWEST_PIECES = 851_968, 448
READ_BYTES = 262_144  # of one call


class StoredPiece(NamedTuple):
    """A piece as it is read; `left_out` are the bytes before it that are not stored."""

    at: int
    size: int
    text: str
    left_out: int

    @property
    def end(self) -> int:
        return self.at + self.size


def live_statement(caller: type[Caller]) -> str:
    return f"""with {caller.cte}
    select a.id, {select_unseen("a.id")} from caller c left join ledger_attempt a
        on a.id = %(attempt)s and {IS_LIVE} and {own_attempt(caller)} and a.deadline_at > %(now)s"""


LIVE: Statements = {caller: live_statement(caller) for caller in (Bearer, TrustedCaller)}
LOCK = "select pg_advisory_xact_lock(hashtextextended('tenfour.output/' || %(attempt)s::text, 0))"
NEWEST = """select at, size, text from retries_attemptoutput where attempt_id = %(attempt)s
order by at desc limit 2"""
STORE = """insert into retries_attemptoutput (attempt_id, at, size, text)
select %(attempt)s, p.at, p.size, p.text
from unnest(%(at)s::bigint[], %(size)s::int[], %(text)s::text[]) p(at, size, text)
on conflict (attempt_id, at) do update set size = excluded.size, text = excluded.text"""
# The first pieces stay, and the newest of the others.
TRIM = f"""delete from retries_attemptoutput where attempt_id = %(attempt)s and at in (
    select at from (
        select at, sum(octet_length(text)) over first - octet_length(text) as before,
            row_number() over first as nth,
            sum(octet_length(text)) over newest as after, row_number() over newest as nth_newest
        from retries_attemptoutput where attempt_id = %(attempt)s
        window first as (order by at), newest as (order by at desc)
    ) p where (before >= {FIRST_BYTES} or nth > {FIRST_PIECES})
        and (after > {NEWEST_BYTES} or nth_newest > {NEWEST_PIECES}))"""
READ = """select at, size, text, left_out from (
    select p.*, sum(octet_length(text)) over (order by at) - octet_length(text) as before from (
        select at, size, text,
            at - coalesce(lag(at + size) over (order by at), 0) as left_out
        from retries_attemptoutput where attempt_id = %(attempt)s
    ) p where at + size > %(start)s
) p where before < %(most)s order by at"""


@sql.atomic
def append_output(
    attempt_id: UUID, *, at: int, text: str, caller: Caller, now: datetime | None = None
) -> int:
    """Store what a live attempt has printed after `at` bytes; return where to go on from.

    A repeated piece changes nothing. Raises LeaseLost if the attempt is over.
    """
    now = now or server_time.now()
    data = text.encode(errors="replace")
    if len(data) > PIECE_BYTES:
        raise Invalid("/text", f"A piece has at most {PIECE_BYTES:,} bytes. Send several.")
    rows = sql.run(LIVE[type(caller)], attempt=attempt_id, now=now, **caller.params)
    if not require_caller(rows, caller, now):
        raise lease_lost(read_attempt(attempt_id, caller=caller, now=now))
    sql.run(LOCK, attempt=attempt_id)
    stored = [Piece(**row) for row in sql.run(NEWEST, attempt=attempt_id)]
    pieces = add_to_pieces(stored, at, data)
    if pieces:
        sql.run(
            STORE,
            attempt=attempt_id,
            at=[piece.at for piece in pieces],
            size=[piece.size for piece in pieces],
            text=[piece.text for piece in pieces],
        )
        if len(pieces) > 1 or pieces[0].at not in {piece.at for piece in stored}:
            sql.run(TRIM, attempt=attempt_id)
    newest = pieces[-1] if pieces else stored[0] if stored else Piece(0, 0, "")
    return newest.at if newest.size <= MOST_OPEN_BYTES else newest.end


def read_output(attempt_id: UUID, *, start: int = 0, most: int = READ_BYTES) -> list[StoredPiece]:
    rows = sql.run(READ, attempt=attempt_id, start=start, most=most)
    return [StoredPiece(**row) for row in rows]


def read_all(attempt_id: UUID, *, start: int = 0) -> list[StoredPiece]:
    return read_output(attempt_id, start=start, most=sys.maxsize)


def next_place(pieces: list[StoredPiece], *, start: int) -> int:
    """Return where to read on after pieces: at the beginning of the last, which may grow."""
    return max(start, pieces[-1].at) if pieces else start


def join_pieces(pieces: list[StoredPiece]) -> str:
    return "".join(
        (f"[… {piece.left_out:,} bytes left out]\n" if piece.left_out else "") + piece.text
        for piece in pieces
    )
