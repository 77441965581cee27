"""Decide which addresses a provider may have; the settings ask before Django is there."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_protected(url: str) -> bool:
    """Return whether no one can read or change what a provider sends from an address.

    >>> is_protected("https://id.example.com"), is_protected("http://127.0.0.1:9000")
    (True, True)
    >>> is_protected("http://id.example.com"), is_protected("http://localhost.example.com")
    (False, False)
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    try:
        is_local = ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    return parts.scheme == "http" and is_local
