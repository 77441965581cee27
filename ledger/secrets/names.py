"""The names of values that are secret (pure)."""

import re
from functools import lru_cache

# Values with such names are masked whatever they look like; words are separated by `_` first.
SECRET_NAME = re.compile(
    r"passw(?:or)?d|passphrase|secret|api_?key|access_?key(?!_id)|private_?key|signing_?key"
    r"|account_?key|storage_?key|encryption_?key|master_?key"
    r"|authorization|credential|cookie|csrf|xsrf|sessionid|tokens?(?:_|$)"
    r"|(?:^|_)(?:pass|pwd|auth)$"
)
# Every such name contains one of these, or a word that a pattern needs.
NAME_NEEDS = ("csrf", "xsrf", "pass", "auth")
# These endings name a property of a secret, not the secret.
ABOUT = re.compile(r"_(?:type|count|url|uri|name|path|file|limit|usage|budget|expires|at|length)$")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret_name(name: str) -> bool:
    """Return whether values with this name are masked.

    >>> [is_secret_name(name) for name in ("dbPassword", "X-Api-Key", "tokenizer", "token_count")]
    [True, True, False, False]
    """
    return _is_secret_name(name[:200])


@lru_cache(maxsize=4096)
def _is_secret_name(name: str) -> bool:
    words = re.sub(r"[^a-z0-9]", "_", HUMP.sub("_", name).lower())
    return bool(SECRET_NAME.search(words)) and not ABOUT.search(words)
