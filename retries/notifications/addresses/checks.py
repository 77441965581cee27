"""Decide which addresses Tenfour may connect to, so that no channel reaches internal networks."""

import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from functools import lru_cache
from urllib.parse import urlsplit

from django.conf import settings

from ledger.errors import Invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PORTS = {80, 443, 8443}
DEFAULT_PORTS = {"http": 80, "https": 443}
RESOLVE_SECONDS = 5
# networks that carry an IPv4 address, which may be an internal one: NAT64, 6to4 and Teredo
CARRIERS = [
    ipaddress.ip_network(each)
    for each in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")
]
# networks of IANA's registries of special purposes that `is_global` of some versions does not know
SPECIAL = [
    ipaddress.ip_network(each)
    for each in (
        "192.0.0.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.175.48.0/24",
        "100:0:0:1::/64",
        "2001::/23",
        "2620:4f:8000::/48",
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",
    )
]


class ForbiddenAddress(OSError):
    """The address is not public, and TENFOUR_WEBHOOK_ALLOW does not name it.

    It is an OSError, so that a library which connects treats it as a failed connection.
    """


class Allowed:
    """The hosts and networks that TENFOUR_WEBHOOK_ALLOW names, each with a port or without."""

    def __init__(self, entries: tuple[str, ...]) -> None:
        self.hosts: set[tuple[str, int | None]] = set()
        self.networks: list[tuple[Network, int | None]] = []
        for entry in entries:
            host, port = split_entry(entry)
            try:
                self.networks.append((ipaddress.ip_network(host, strict=False), port))
            except ValueError:
                self.hosts.add((host.lower().rstrip("."), port))

    def has_host(self, host: str, port: int) -> bool:
        name = host.lower().rstrip(".")
        return (name, port) in self.hosts or (name, None) in self.hosts

    def has_address(self, address: Address, port: int) -> bool:
        return any(
            address.version == network.version and address in network and of in (None, port)
            for network, of in self.networks
        )


def split_entry(entry: str) -> tuple[str, int | None]:
    """Return the host or network of an entry, and its port.

    >>> [split_entry(e) for e in ("10.0.0.5:3000", "ntfy.lan", "[::1]:80", "fd00::/8")]
    [('10.0.0.5', 3000), ('ntfy.lan', None), ('::1', 80), ('fd00::/8', None)]
    """
    entry = entry.strip()
    if entry.startswith("["):
        host, _, port = entry[1:].partition("]")
        return host, int(port[1:]) if port[1:].isdigit() else None
    host, _, port = entry.rpartition(":")
    if host and ":" not in host and port.isdigit():
        return host, int(port)
    return entry, None


@lru_cache(maxsize=8)
def parse_allowed(entries: tuple[str, ...]) -> Allowed:
    return Allowed(entries)


def allowed() -> Allowed:
    return parse_allowed(tuple(settings.TENFOUR["WEBHOOK_ALLOW"]))


def is_public(address: Address) -> bool:
    # `is_global` alone allows multicast and the networks that carry IPv4 addresses.
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if any(address in network for network in CARRIERS):
            return False
    if any(address in network for network in SPECIAL):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def parse_address(text: str) -> Address:
    """Return a resolver's address without its zone; an IPv4-mapped one becomes IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


def check_address(text: str, *, host: str, port: int) -> None:
    """Raise ForbiddenAddress unless Tenfour may connect to this address of a host."""
    address, known = parse_address(text), allowed()
    if known.has_host(host, port) or known.has_address(address, port):
        return
    if not is_public(address):
        raise ForbiddenAddress(
            f"{host} resolves to {address}, which is not a public address. "
            f"To allow it, add {host}:{port} to TENFOUR_WEBHOOK_ALLOW."
        )


def check_port(host: str, port: int) -> None:
    known = allowed()
    try:
        named = known.has_address(parse_address(host), port)
    except ValueError:
        named = False
    if port not in PORTS and not named and not known.has_host(host, port):
        raise ForbiddenAddress(
            f"Port {port} is not one of {', '.join(map(str, sorted(PORTS)))}. "
            f"To allow it, add {host}:{port} to TENFOUR_WEBHOOK_ALLOW."
        )


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host; raises OSError if it has none or the resolver hangs."""
    pool = ThreadPoolExecutor(1)
    try:
        found = pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(each[4][0]) for each in found.result(RESOLVE_SECONDS)))
    except Late as error:
        raise OSError(f"{host} was not resolved within {RESOLVE_SECONDS} s") from error
    except UnicodeError as error:
        raise OSError(f"{host[:80]!r} is not a host name") from error
    finally:
        pool.shutdown(wait=False)


def resolve_checked(host: str, port: int, *, any_port: bool = False) -> list[str]:
    """Return a host's addresses if all of them are allowed; raise ForbiddenAddress or OSError."""
    # A service for people may have any port: its own server chooses it.
    if not any_port:
        check_port(host, port)
    found = resolve(host, port)
    for address in found:
        check_address(address, host=host, port=port)
    return found


def check_url(url: str, *, pointer: str = "/url") -> str:
    """Return a webhook's URL; raise Invalid with the reason if Tenfour must not call it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise Invalid(pointer, f"The URL can't be read: {error}.") from error
    if parts.scheme not in DEFAULT_PORTS or not host:
        raise Invalid(pointer, "The URL must begin with https:// and name a host.")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise Invalid(pointer, "The URL must be ASCII without spaces; encode other characters.")
    if parts.username or parts.password or parts.fragment:
        raise Invalid(pointer, "The URL must have no user name, password or fragment.")
    if parts.scheme == "http" and not may_be_plain(host, port):
        raise Invalid(
            pointer,
            "The URL must begin with https://. To allow http:// for this host, "
            f"add {host}:{port} to TENFOUR_WEBHOOK_ALLOW.",
        )
    try:
        resolve_checked(host, port)
    except ForbiddenAddress as error:
        raise Invalid(pointer, str(error)) from error
    except OSError as error:
        raise Invalid(pointer, f"The host {host} can't be resolved: {reason_of(error)}.") from error
    return url


def may_be_plain(host: str, port: int) -> bool:
    """Return whether http:// is allowed: only for what TENFOUR_WEBHOOK_ALLOW names."""
    known = allowed()
    if known.has_host(host, port):
        return True
    try:
        return any(known.has_address(parse_address(each), port) for each in resolve(host, port))
    except (OSError, ValueError):
        return False


def reason_of(error: OSError) -> str:
    return (error.strerror or str(error)).rstrip(".")
