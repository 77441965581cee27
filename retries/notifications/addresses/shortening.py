"""Shorten the address of a channel to the parts that are not secret.

Many services have no other secret than the path of their address, so a path is never shown.
"""

import re

from ledger.values.text import truncate

LENGTH = 200
PARTS = re.compile(r"([^:/?#]*://)?([^/?#]*)(/[^/?#]*)?(.*)", re.DOTALL)
# a first segment that is a key by itself, as in https://hc-ping.com/UUID
KEY = re.compile(r"/(?=\D*\d)[\w-]{16,}")


def shorten_address(url: str) -> str:
    """Return the scheme, the host and the first path segment of an address, then an ellipsis.

    >>> shorten_address("https://hooks.example.com/services/T0/B0/secret?wait=1")
    'https://hooks.example.com/services/…'
    >>> shorten_address("https://example.com/hook"), shorten_address("https://example.com/?key=1")
    ('https://example.com/hook', 'https://example.com/…')
    >>> shorten_address("https://hc-ping.com/0c8983c9-9d73-446f-adb5-0641fdacc9d4")
    'https://hc-ping.com/…'
    """
    found = PARTS.fullmatch(url)
    assert found
    scheme, host, first, rest = (part or "" for part in found.groups())
    if KEY.fullmatch(first):
        first, rest = "", first
    if rest.strip("/"):
        first = first.rstrip("/") + "/…"
    return truncate(scheme + host + first, LENGTH)
