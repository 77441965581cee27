"""Find a request's client: its address, as far as the proxies in front are trusted."""

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

SUBNET = 64  # bits of an IPv6 address that one client has; it chooses the others


def find_client_address(environ: Mapping[str, Any], *, proxies: int) -> str:
    """Return the client's address, which as many proxies as are trusted have passed on."""
    if proxies:
        # Each proxy appends the address that it saw, so the client can forge all but the last.
        seen = environ.get("HTTP_X_FORWARDED_FOR", "").split(",")
        address = seen[-proxies].strip() if len(seen) >= proxies else ""
        with suppress(ValueError):  # else the address of the connection
            return str(ipaddress.ip_address(address))
    return str(environ.get("REMOTE_ADDR", ""))


def find_client_network(address: str) -> str:
    """Return the address, or the network of an IPv6 address."""
    # A client can choose the last half of an IPv6 address freely.
    with suppress(ValueError):
        if ipaddress.ip_address(address).version == 6:
            return str(ipaddress.ip_network(f"{address}/{SUBNET}", strict=False))
    return address
