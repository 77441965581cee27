"""The authenticated caller of a request (pure)."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The bearer of a token; every `visible_to` filters by it."""

    token_id: UUID
    kind: str
    name: str
    project_id: UUID
    project_name: str
    agent_id: UUID | None
    agent_name: str | None
    scopes: frozenset[str]
    in_pools: bool = False  # its agent also claims tasks of pools

    @property
    def is_agent(self) -> bool:
        return self.kind == "agent"
