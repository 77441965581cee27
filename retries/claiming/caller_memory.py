"""Remember which callers need the longer form of a statement, and skip the short one."""

from uuid import UUID

from ledger.tokens import Bearer, Caller, TrustedCaller

MOST_REMEMBERED = 10_000


class CallerMemory:
    """The callers of a process that needed the longer form when they called last.

    It saves a statement and decides nothing: the statement itself tells whether this is still so.
    """

    def __init__(self) -> None:
        self.keys: set[bytes | UUID] = set()

    def __contains__(self, caller: Caller) -> bool:
        return key_of(caller) in self.keys

    def remember(self, caller: Caller, *, holds: bool) -> None:
        key = key_of(caller)
        if key is None or (key in self.keys) == holds:
            return
        if not holds:
            self.keys.discard(key)
            return
        if len(self.keys) >= MOST_REMEMBERED:
            self.keys.clear()
        self.keys.add(key)


def key_of(caller: Caller) -> bytes | UUID | None:
    if isinstance(caller, Bearer):
        return caller.digest
    if isinstance(caller, TrustedCaller) and caller.agent:
        return caller.agent.pk
    return None
