"""Request values that several nouns read in the same way: lists of states, and If-Match."""

import re

from django.db.models import TextChoices

from ledger.api.auth import PrincipalRequest
from ledger.errors import IfMatchRequired, Invalid

ETAG = re.compile(r'"v([1-9][0-9]{0,8})"')


def parse_states(text: str, states: type[TextChoices]) -> list[str]:
    """Return the states in a comma-separated list; raise Invalid for an unknown one."""
    names = text.split(",")
    if unknown := [name for name in names if name not in states.values]:
        known = ", ".join(states.values)
        raise Invalid("/state", f"'{unknown[0]}' is not a state. Use one of: {known}.")
    return names


def parse_if_match(request: PrincipalRequest) -> int:
    """Return the version in If-Match; raise IfMatchRequired or Invalid."""
    etag = request.headers.get("If-Match")
    if not etag:
        raise IfMatchRequired("The request has no If-Match header.")
    match = ETAG.fullmatch(etag)
    if match is None:
        raise Invalid("/If-Match", 'If-Match must be the ETag you received, such as "v7".')
    return int(match[1])
