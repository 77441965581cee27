"""A body in chunks, without a length, is read like any other."""

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.serving import Tenfour
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def send(server: Tenfour, token: str, pieces: Iterator[bytes]) -> tuple[int, dict[str, object]]:
    where = urlsplit(server.url)
    assert where.hostname
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request(
            "POST", "/v1/instructions", body=pieces, headers=headers, encode_chunked=True
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_an_instruction_may_arrive_in_chunks(tenfour_server: Tenfour) -> None:
    tenfour_server.token("agent", "coder")
    text = json.dumps({"agent": "coder", "content": "Check " * 1000}).encode()
    pieces = (text[at : at + 1000] for at in range(0, len(text), 1000))
    status, body = send(tenfour_server, tenfour_server.token("orchestrator"), pieces)
    assert (status, body["content"]) == (201, "Check " * 1000)


def test_chunks_are_read_up_to_the_limit(tenfour_server: Tenfour) -> None:
    pieces = (b"x" * 65_536 for _ in range(20))
    status, body = send(tenfour_server, tenfour_server.token("orchestrator"), pieces)
    assert (status, body["code"], body["limit_bytes"]) == (413, "payload_too_large", 262_144)


def test_the_token_is_checked_before_chunks_are_read(tenfour_server: Tenfour) -> None:
    """The body would be refused as too large if it were read."""
    pieces = (b"x" * 65_536 for _ in range(5))
    status, body = send(tenfour_server, "tf_wrong", pieces)
    assert (status, body["code"]) == (401, "token_invalid")
