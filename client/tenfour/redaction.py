"""Masks what only this machine knows to be secret: values of the environment.

Secrets that show by their form or by the name beside them are masked by the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SECRET_NAME = re.compile(
    r"PASSW|PASSPHRASE|PWD$|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|AUTH$", re.I
)
# … but for those that only tell where it is, or of what kind.
ABOUT = re.compile(r"_(?:FILE|PATH|URL|URI|NAME|TYPE|USER|ID)$|^(?:OLD)?PWD$", re.I)
SHORTEST = 8
MASK = "[redacted:env]"


def masked(text: str, environ: Mapping[str, str]) -> str:
    """`text` without the values of variables whose names say that they are secret."""
    for value in sorted(secrets_of(environ), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def secrets_of(environ: Mapping[str, str]) -> set[str]:
    return {
        value
        for name, value in environ.items()
        if len(value) >= SHORTEST and SECRET_NAME.search(name) and not ABOUT.search(name)
    }
