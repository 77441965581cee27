"""Encrypt secrets with keys that are derived from Django's secret keys."""

import base64
import json
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

PURPOSE = b"tenfour.notifications"


class Unreadable(Exception):
    """A secret was encrypted with a key that is no longer configured."""


def encrypt(value: Any) -> str:
    return load_keys().encrypt(json.dumps(value).encode()).decode()


def decrypt(text: str) -> Any:
    """Return a value that `encrypt` made with the current key or an earlier one."""
    try:
        return json.loads(load_keys().decrypt(text.encode()))
    except InvalidToken as error:
        raise Unreadable(
            "The secrets of this channel were encrypted with another secret key. "
            "Enter its address again."
        ) from error


def rotate(text: str) -> str:
    return encrypt(decrypt(text))


def is_current(text: str) -> bool:
    try:
        key_from(settings.SECRET_KEY).decrypt(text.encode())
    except InvalidToken:
        return False
    return True


def load_keys() -> MultiFernet:
    # The current key encrypts, and all of them decrypt.
    return MultiFernet(
        [key_from(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    )


def key_from(secret: str) -> Fernet:
    # The secret key also signs cookies.
    derived = HKDF(SHA256(), 32, salt=None, info=PURPOSE).derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
