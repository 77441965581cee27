"""Tokens of every kind, on a running server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.config.mcp.calls import Mcp
from tests.serving import Tenfour


@pytest.fixture
def mcp(tenfour_server: Tenfour) -> Iterator[Callable[..., Mcp]]:
    """`mcp("agent", "coder")`: a caller with a new token of that kind."""
    with ExitStack() as stack:

        def connect(kind: str, agent: str | None = None) -> Mcp:
            caller = Mcp(tenfour_server.url, tenfour_server.token(kind, agent))
            stack.enter_context(caller.http)
            return caller

        yield connect


@pytest.fixture
def coder(mcp: Callable[..., Mcp]) -> Mcp:
    return mcp("agent", "coder")


@pytest.fixture
def lead(mcp: Callable[..., Mcp]) -> Mcp:
    """A producer."""
    return mcp("orchestrator")
