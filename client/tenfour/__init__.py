"""The client of Tenfour, the reliability ledger for AI agents' work.

Names are imported when they are used, so that `import tenfour` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenfour.version import __version__

if TYPE_CHECKING:
    from tenfour.attempts.claiming import AsyncAttempts as AsyncAttempts
    from tenfour.attempts.claiming import Attempts as Attempts
    from tenfour.attempts.claiming import NoWork as NoWork
    from tenfour.attempts.live_attempts import AsyncLiveAttempt as AsyncLiveAttempt
    from tenfour.attempts.live_attempts import LiveAttempt as LiveAttempt
    from tenfour.attempts.live_attempts import Question as Question
    from tenfour.checks.verification import Verified as Verified
    from tenfour.cli_retries import MAX_CLI_RETRIES as MAX_CLI_RETRIES
    from tenfour.cli_retries import run_cli as run_cli
    from tenfour.cli_retries import run_cli_async as run_cli_async
    from tenfour.cli_retries import try_cli as try_cli
    from tenfour.client import AsyncClient as AsyncClient
    from tenfour.client import Client as Client
    from tenfour.command_agent import Action as Action
    from tenfour.command_agent import AgentResponse as AgentResponse
    from tenfour.command_agent import CommandAgent as CommandAgent
    from tenfour.command_fixing import ArgumentFixer as ArgumentFixer
    from tenfour.command_retries.cli_reports import Try as Try
    from tenfour.command_retries.conversations import Conversations as Conversations
    from tenfour.command_retries.model_endpoint import ModelEndpoint as ModelEndpoint
    from tenfour.command_retries.model_endpoint import ModelError as ModelError
    from tenfour.http.problems import Blocked as Blocked
    from tenfour.http.problems import ServerAway as ServerAway
    from tenfour.http.problems import TaskFailed as TaskFailed
    from tenfour.http.problems import TenfourError as TenfourError
    from tenfour.models import Acked as Acked
    from tenfour.models import Agent as Agent
    from tenfour.models import Attempt as Attempt
    from tenfour.models import Claim as Claim
    from tenfour.models import Claimed as Claimed
    from tenfour.models import Decision as Decision
    from tenfour.models import Escalation as Escalation
    from tenfour.models import Heartbeat as Heartbeat
    from tenfour.models import ImportedPlan as ImportedPlan
    from tenfour.models import Instruction as Instruction
    from tenfour.models import Me as Me
    from tenfour.models import Numbers as Numbers
    from tenfour.models import Plan as Plan
    from tenfour.models import PlanForecast as PlanForecast
    from tenfour.models import PlanTask as PlanTask
    from tenfour.models import PlanWithTasks as PlanWithTasks
    from tenfour.models import Pulled as Pulled
    from tenfour.models import Stats as Stats
    from tenfour.models import Task as Task
    from tenfour.record_models import BulkOperation as BulkOperation
    from tenfour.record_models import Channel as Channel
    from tenfour.record_models import DeadLetter as DeadLetter
    from tenfour.record_models import Delivery as Delivery
    from tenfour.record_models import EscalationPolicy as EscalationPolicy
    from tenfour.record_models import Event as Event
    from tenfour.record_models import Hold as Hold
    from tenfour.record_models import ImportedSession as ImportedSession
    from tenfour.record_models import Marker as Marker
    from tenfour.record_models import Message as Message
    from tenfour.record_models import Pattern as Pattern
    from tenfour.record_models import PatternFailure as PatternFailure
    from tenfour.record_models import Permission as Permission
    from tenfour.record_models import Policies as Policies
    from tenfour.record_models import Rota as Rota
    from tenfour.record_models import Session as Session
    from tenfour.record_models import SessionStatus as SessionStatus
    from tenfour.record_models import SessionTask as SessionTask
    from tenfour.record_models import StandingInstruction as StandingInstruction
    from tenfour.record_models import StoredMessages as StoredMessages
    from tenfour.record_models import Target as Target
    from tenfour.record_models import Token as Token
    from tenfour.record_models import Trial as Trial
    from tenfour.record_models import Webhook as Webhook
    from tenfour.results import ChangedVerb as ChangedVerb
    from tenfour.results import Err as Err
    from tenfour.results import Ok as Ok
    from tenfour.results import Result as Result
    from tenfour.retrying import RetryConfig as RetryConfig
    from tenfour.retrying import RetryStrategy as RetryStrategy
    from tenfour.retrying import retry as retry
    from tenfour.runs.programs import CommandFailed as CommandFailed
    from tenfour.runs.programs import CommandTimeout as CommandTimeout
    from tenfour.runs.programs import Program as Program
    from tenfour.settings import NotConfigured as NotConfigured

# Where each name comes from.
HOMES = {
    "attempts.live_attempts": ("AsyncLiveAttempt", "LiveAttempt", "Question"),
    "attempts.claiming": ("AsyncAttempts", "Attempts", "NoWork"),
    "command_retries.cli_reports": ("Try",),
    "cli_retries": ("MAX_CLI_RETRIES", "run_cli", "run_cli_async", "try_cli"),
    "client": ("AsyncClient", "Client"),
    "command_agent": ("Action", "AgentResponse", "CommandAgent"),
    "command_fixing": ("ArgumentFixer",),
    "command_retries.conversations": ("Conversations",),
    "command_retries.model_endpoint": ("ModelEndpoint", "ModelError"),
    "models": (
        "Acked",
        "Agent",
        "Attempt",
        "Claim",
        "Claimed",
        "Decision",
        "Escalation",
        "Heartbeat",
        "ImportedPlan",
        "Instruction",
        "Me",
        "Numbers",
        "Plan",
        "PlanTask",
        "PlanForecast",
        "PlanWithTasks",
        "Pulled",
        "Stats",
        "Task",
    ),
    "http.problems": ("Blocked", "ServerAway", "TaskFailed", "TenfourError"),
    "runs.programs": ("CommandFailed", "CommandTimeout", "Program"),
    "record_models": (
        "BulkOperation",
        "Channel",
        "DeadLetter",
        "Delivery",
        "EscalationPolicy",
        "Event",
        "Hold",
        "ImportedSession",
        "Marker",
        "Message",
        "Pattern",
        "PatternFailure",
        "Permission",
        "Policies",
        "Rota",
        "Session",
        "SessionStatus",
        "SessionTask",
        "StandingInstruction",
        "StoredMessages",
        "Target",
        "Token",
        "Trial",
        "Webhook",
    ),
    "results": ("ChangedVerb", "Err", "Ok", "Result"),
    "retrying": ("RetryConfig", "RetryStrategy", "retry"),
    "settings": ("NotConfigured",),
    "checks.verification": ("Verified",),
}
MODULE_OF = {name: module for module, names in HOMES.items() for name in names}

__all__ = ["__version__", *MODULE_OF]


def __getattr__(name: str) -> object:
    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"tenfour.{MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
