"""Each process of a test run collects the same tests under the same names."""

import gzip

import pytest


@pytest.mark.parametrize("sent", [gzip.compress(b"made now")])
def test_a_name_holds_no_bytes(sent: bytes, request: pytest.FixtureRequest) -> None:
    assert request.node.name == f"test_a_name_holds_no_bytes[{len(sent)} bytes]"
