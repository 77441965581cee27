"""Masking of secrets that only this machine knows: values of environment variables.

The server masks secrets that it recognizes by their form or by the name beside them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SECRET_NAME = re.compile(
    r"PASSW|PASSPHRASE|PWD$|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|AUTH$", re.I
)
# … except names that only say where a secret is, or of what kind.
ABOUT = re.compile(r"_(?:FILE|PATH|URL|URI|NAME|TYPE|USER|ID)$|^(?:OLD)?PWD$", re.I)
SHORTEST = 8
MASK = "[redacted:env]"


def masked(text: str, environ: Mapping[str, str]) -> str:
    """Return `text` without the values of variables whose names say that they are secret."""
    for value in sorted(secrets_of(environ), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def secrets_of(environ: Mapping[str, str]) -> set[str]:
    return {
        value
        for name, value in environ.items()
        if len(value) >= SHORTEST and SECRET_NAME.search(name) and not ABOUT.search(name)
    }
