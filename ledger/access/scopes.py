"""The scopes of tokens, and those that each kind of token gets."""

from collections.abc import Collection

from ledger.errors import Invalid
from ledger.models.token import TokenKind

READING = {
    "agents:read",
    "escalations:read",
    "events:read",
    "instructions:read",
    "metrics:read",
    "sessions:read",
    "tasks:read",
}
AGENT = {
    "tasks:read",
    "tasks:work",
    "tasks:create",
    "instructions:read",
    "instructions:ack",
    "signals:write",
    "sessions:read",
    "sessions:write",
    "escalations:read",
}
ORCHESTRATOR = AGENT | READING | {"tasks:write", "plans:write", "instructions:write"}
OPERATOR = (
    ORCHESTRATOR
    | {"deadletters:write", "escalations:resolve", "webhooks:write", "agents:write"}
)  # fmt: skip
# the scopes of a new token by kind; tokens of agents and orchestrators never get others
PRESETS = {
    TokenKind.AGENT: AGENT,
    TokenKind.ORCHESTRATOR: ORCHESTRATOR,
    TokenKind.OPERATOR: OPERATOR,
    TokenKind.READER: READING,
}
TOKENS_WRITE = "tokens:write"
SCOPES = frozenset(OPERATOR | {TOKENS_WRITE})


def choose_scopes(kind: TokenKind, chosen: Collection[str] | None) -> set[str]:
    """Return the chosen scopes of a kind, or all of them without a choice; raises Invalid."""
    preset = PRESETS[kind]
    if chosen is None:
        return set(preset)
    if not chosen:
        raise Invalid(
            "/scopes", "Choose at least one scope, or leave 'scopes' out for all of them."
        )
    if unknown := sorted({*chosen} - preset):
        raise Invalid(
            "/scopes",
            f"A token of kind '{kind}' can't have '{unknown[0][:40]}'. "
            f"Choose from: {', '.join(sorted(preset))}.",
        )
    return {*chosen}
