"""The facts, one noun a file."""

from ledger.models.agent import Agent
from ledger.models.clock import ClockRun
from ledger.models.event import Event
from ledger.models.idempotency import IdempotencyKey
from ledger.models.instruction import Instruction
from ledger.models.project import Project
from ledger.models.token import Token

__all__ = [
    "Agent",
    "ClockRun",
    "Event",
    "IdempotencyKey",
    "Instruction",
    "Project",
    "Token",
]
