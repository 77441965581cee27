"""The agent's side of Heed: instructions that are acknowledged or chased."""

from heed.client import AsyncClient, Client
from heed.models import Acked, Agent, Instruction, Me, Numbers, Pulled, Stats
from heed.problems import HeedError, ServerAway
from heed.settings import NotConfigured
from heed.version import __version__

__all__ = [
    "Acked",
    "Agent",
    "AsyncClient",
    "Client",
    "HeedError",
    "Instruction",
    "Me",
    "NotConfigured",
    "Numbers",
    "Pulled",
    "ServerAway",
    "Stats",
    "__version__",
]
