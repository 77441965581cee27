"""The agent's side of Heed: instructions that are chased, tasks that are retried or buried."""

from heed.attempts import AsyncLiveAttempt, LiveAttempt
from heed.client import AsyncClient, Client
from heed.models import (
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
from heed.problems import HeedError, ServerAway
from heed.settings import NotConfigured
from heed.verification import Verified
from heed.version import __version__

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
    "HeedError",
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
    "Verified",
    "__version__",
]
