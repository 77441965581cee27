"""A port that is about to change hands: no connection is in a queue that no one reads."""

import select
import socket
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from config.local.listeners import divert_new_connections, open_listener, open_more_listeners

ROUNDS, CLIENTS = 15, 6


def connect_until(stop: Event, address: tuple[str, int]) -> int:
    """Connect again and again; return how many connections there were."""
    made = 0
    while not stop.is_set():
        try:
            with socket.create_connection(address, timeout=0.05):
                made += 1
        except TimeoutError:
            pass
    return made


def accept_until(listeners: list[socket.socket], stop: Event) -> int:
    """Accept what arrives at the listeners; return how many connections that were."""
    accepted = 0
    while (ready := select.select(listeners, [], [], 0.2)[0]) or not stop.is_set():
        for each in ready:
            each.accept()[0].close()
            accepted += 1
    return accepted


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_connection_is_accepted_or_waits_to_be_made(host: str) -> None:
    for _ in range(ROUNDS):
        listener = open_listener(host, 0)
        listeners = [listener, *open_more_listeners(listener, 1)]
        stop, address = Event(), listener.getsockname()[:2]
        with ThreadPoolExecutor() as threads:
            clients = [threads.submit(connect_until, stop, address) for _ in range(CLIENTS)]
            accepting = threads.submit(accept_until, listeners, stop)
            held = divert_new_connections(listeners)
            with pytest.raises(TimeoutError):
                socket.create_connection(address, timeout=0.2)
            stop.set()
            made = sum(each.result() for each in clients)
            assert held and made <= accepting.result()
        for each in [*held, *listeners]:
            each.close()
