"""Keep a text with a secret twice: masked for everyone, and encrypted as it was typed."""

from typing import Any, TypeVar

from ledger.secrets import encryption
from ledger.secrets.redaction import redacted

T = TypeVar("T")


def seal(value: T) -> tuple[T, str]:
    """Return a JSON value without secrets, and the whole value encrypted; empty without one."""
    masked = redacted(value)
    return masked, "" if masked == value else encryption.encrypt(value)


def unseal(masked: Any, sealed: str) -> Any:
    """Return the value as it was typed; masked if its key is no longer configured."""
    try:
        return encryption.decrypt(sealed) if sealed else masked
    except encryption.Unreadable:
        return masked
