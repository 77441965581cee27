"""Limit failed sign-in attempts by address and username; without the cache there is no limit.

A name that is guessed from many addresses has a limit of its own. It holds for strangers alone, so
that no one can lock a person out: see `known_browsers`.
"""

import hashlib
import unicodedata
from collections.abc import Callable
from ipaddress import ip_address, ip_network

from ledger.access import auth_failures
from ledger.database import optional_cache
from ledger.database.process_counters import RATE_LIMITED

WINDOW_SECONDS = 60
# Several people may share an address, so all of its usernames together have a larger limit.
PER_ADDRESS = 3
# attempts by strangers on one name, from all addresses together
STRANGERS_SECONDS = 3600
STRANGERS = 5


def normalize(username: str) -> str:
    # The form looks up usernames without differences of case.
    return unicodedata.normalize("NFKC", username.strip()).strip().casefold()


def network_of(address: str) -> str:
    """Return what one computer may choose its addresses from: with IPv6, that is a whole network.

    >>> network_of("2001:db8::1") == network_of("2001:db8::ffff:0:0:2")
    True
    >>> network_of("192.0.2.7"), network_of("::ffff:192.0.2.7"), network_of("unknown")
    ('192.0.2.7', '192.0.2.7', 'unknown')
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = getattr(parsed, "ipv4_mapped", None)
    if parsed.version == 4 or mapped:
        return str(mapped or parsed)
    return str(ip_network((parsed, 64), strict=False))


def key_of(*parts: str) -> str:
    name = hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]
    return f"sign-in:{name}"


def count_attempt(address: str, username: str) -> bool:
    """Count an attempt and return whether it is within the limits."""
    # This comes before the password is checked, so that concurrent attempts cannot exceed the
    # limit.
    limit = auth_failures.PER_MINUTE
    network = network_of(address)
    of_name = optional_cache.increment(key_of(network, normalize(username)), seconds=WINDOW_SECONDS)
    of_address = optional_cache.increment(key_of(network), seconds=WINDOW_SECONDS)
    if of_name <= limit and of_address <= PER_ADDRESS * limit:
        return True
    RATE_LIMITED.labels("sign_in").inc()
    return False


def count_stranger(username: str, is_known: Callable[[], bool]) -> bool:
    """Count an attempt from any address; return whether a stranger may still make it."""
    # `is_known` is asked only beyond the limit, which never holds for a person's own browsers.
    limit = STRANGERS * auth_failures.PER_MINUTE
    key = key_of("strangers", normalize(username))
    if optional_cache.increment(key, seconds=STRANGERS_SECONDS) <= limit or is_known():
        return True
    RATE_LIMITED.labels("sign_in").inc()
    return False


def reset_attempts(address: str, username: str) -> None:
    # The attempts from its address still count.
    optional_cache.delete(key_of(network_of(address), normalize(username)))
