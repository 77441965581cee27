"""Requests whose body arrives in chunks, without a length: read like any other, up to a limit."""

from typing import Any, Protocol

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.handlers.wsgi import WSGIRequest

from ledger.errors import PayloadTooLarge

# A moderate body is read to its end even if it is refused: a sender that is still writing would
# not see the response.
DRAIN_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 65_536


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class ChunkedBody:
    """The body of a request without a length; reading it raises an error beyond the limit."""

    def __init__(self, source: Readable) -> None:
        self.source = source
        self.limit: int | None = None  # known as soon as the API has found the operation
        self.seen = 0

    def read(self, size: int | None = None) -> bytes:
        """Return up to `size` bytes, or all; empty at the end of the body."""
        pieces: list[bytes] = []
        left = size if size is not None and size >= 0 else None
        while left is None or left > 0:
            piece = self.source.read(PIECE_BYTES if left is None else min(left, PIECE_BYTES))
            if not piece:
                break
            pieces.append(piece)
            self.count(piece)
            left = None if left is None else left - len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Do nothing: the web server closes the source."""

    def count(self, piece: bytes) -> None:
        self.seen += len(piece)
        limit = self.limit or settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if self.seen <= limit:
            return
        while self.seen < DRAIN_BYTES and (more := self.source.read(PIECE_BYTES)):
            self.seen += len(more)
        if self.limit is None:  # a page: Django answers this error with 400
            raise RequestDataTooBig(f"The body has more than {limit} bytes.")
        raise PayloadTooLarge(
            f"The body has more than {limit} bytes, which is the limit.", limit_bytes=limit
        )


class Request(WSGIRequest):
    """A request whose body may arrive in chunks; Django itself reads nothing without a length."""

    def __init__(self, environ: dict[str, Any]) -> None:
        super().__init__(environ)
        if environ.get("wsgi.input_terminated") and not environ.get("CONTENT_LENGTH"):
            self._stream = ChunkedBody(environ["wsgi.input"])  # type: ignore[assignment]

    def limit_body(self, limit: int) -> None:
        """Set the number of bytes that the body may have if it arrives in chunks."""
        if isinstance(self._stream, ChunkedBody):
            self._stream.limit = limit
