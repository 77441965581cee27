"""The client of Tenfour, the reliability ledger for AI agents' work."""

from tenfour.attempts import AsyncLiveAttempt, LiveAttempt
from tenfour.client import AsyncClient, Client
from tenfour.models import (
    Acked,
    Agent,
    Attempt,
    Claim,
    Claimed,
    Decision,
    Heartbeat,
    ImportedPlan,
    Instruction,
    Me,
    Numbers,
    Plan,
    PlanTask,
    PlanWithTasks,
    Pulled,
    Stats,
    Task,
)
from tenfour.problems import ServerAway, TenfourError
from tenfour.settings import NotConfigured
from tenfour.verification import Verified
from tenfour.version import __version__

__all__ = [
    "Acked",
    "Agent",
    "AsyncClient",
    "AsyncLiveAttempt",
    "Attempt",
    "Claim",
    "Claimed",
    "Client",
    "Decision",
    "Heartbeat",
    "ImportedPlan",
    "Instruction",
    "LiveAttempt",
    "Me",
    "NotConfigured",
    "Numbers",
    "Plan",
    "PlanTask",
    "PlanWithTasks",
    "Pulled",
    "ServerAway",
    "Stats",
    "Task",
    "TenfourError",
    "Verified",
    "__version__",
]
