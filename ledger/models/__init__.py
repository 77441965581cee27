"""The models of the ledger, one noun per file."""

from ledger.models.agent import AccountWindow, Agent, DailyTaskCount, PoolMember
from ledger.models.bookkeeping import (
    ClockRun,
    IdempotencyKey,
    InstructionWords,
    TaskValue,
    TaskWords,
)
from ledger.models.breaker import Breaker
from ledger.models.budget import AtLimit, Budget, BudgetPeriod, BudgetUnit, ModelPrice
from ledger.models.dead_letter import DeadLetter
from ledger.models.event import Event, Marker
from ledger.models.instruction import Instruction
from ledger.models.person import (
    Invitation,
    Membership,
    Preference,
    SavedView,
    SignIn,
    SignInMethod,
    SignInOutcome,
    SignInRecord,
    Theme,
)
from ledger.models.plan import Plan, PlanState
from ledger.models.project import Project
from ledger.models.session import Message, Session, SessionBatch, SessionTask
from ledger.models.standing_instruction import StandingInstruction
from ledger.models.task import Attempt, Failure, MissingNeed, Need, Task, TaskHistory
from ledger.models.token import Token
