"""Read the rows of the page of policies: their scopes, who switched them, and their replays."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q

from dashboard.settings.policy_wording import POLICIES, PolicyText, describe_minutes
from ledger.database.optional_cache import get_or_compute
from ledger.journal import Kind
from ledger.models import Event, Project, Task
from ledger.states import Proof, TaskState
from retries.models import RetryPolicy
from retries.policies.editing import EVIDENCE, EXCLUSIVE_FILES
from retries.policies.replay import (
    DAYS,
    Effects,
    Replay,
    ReplayedTask,
    count_effects,
    replay_policy,
)
from retries.states import PolicyScope

CHANGES_READ = 100
FIGURES_SECONDS = 300  # computed figures are shown this long
LOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Change:
    """The last time that a person switched a policy."""

    at: datetime
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Figures:
    """The changes that a policy made, or would have made, for the tasks of one scope."""

    replay: Replay
    effects: Effects

    @property
    def time_saved(self) -> str:
        return describe_minutes(self.replay.saved_s)

    @property
    def lost(self) -> list[ReplayedTask]:
        return self.replay.lost[:LOST_SHOWN]


@dataclass(frozen=True, slots=True)
class ProofShare:
    """The tasks that were done lately, and those of them without proof."""

    done: int
    unproven: int


@dataclass(frozen=True, slots=True)
class ListedPolicy:
    """A policy with its scope, its last change and its figures: a replay's, or the proofs'."""

    text: PolicyText
    scope: str | None
    change: Change | None
    figures: Figures | None = None
    proofs: ProofShare | None = None

    @property
    def is_on(self) -> bool:
        return self.scope != PolicyScope.OFF

    @property
    def state(self) -> str:
        return self.text.states[self.scope]


def list_policies(project: Project, row: RetryPolicy, *, now: datetime) -> list[ListedPolicy]:
    changes = find_changes(project)
    listed = []
    for text in POLICIES:
        scope, change = getattr(row, text.name), changes.get(text.name)
        if text.name == EVIDENCE:
            listed.append(ListedPolicy(text, scope, change, proofs=read_proofs(project, now=now)))
        elif text.name == EXCLUSIVE_FILES:
            listed.append(ListedPolicy(text, scope, change))
        else:
            figures = read_figures(project, text.name, scope=PolicyScope.ALL, now=now)
            listed.append(ListedPolicy(text, scope, change, figures))
    return listed


def read_proofs(project: Project, *, now: datetime) -> ProofShare:
    # The share may be some minutes old.
    def compute() -> tuple[int, int]:
        done = Task.objects.filter(
            project=project, state=TaskState.DONE, updated_at__gt=now - timedelta(days=DAYS)
        )
        proven = Q(proof__in=[Proof.PROVEN, Proof.PERSON])
        found = done.aggregate(done=Count("pk"), proven=Count("pk", filter=proven))
        return found["done"], found["done"] - found["proven"]

    key = f"policies:{project.pk}:{EVIDENCE}"
    return ProofShare(*get_or_compute(key, compute, seconds=FIGURES_SECONDS))


def read_figures(project: Project, policy: str, *, scope: str, now: datetime) -> Figures:
    # The figures may be some minutes old.
    def compute() -> tuple[Replay, Effects]:
        return (
            replay_policy(policy, project_id=project.pk, now=now),
            count_effects(policy, project_id=project.pk, now=now),
        )

    key = f"policies:{project.pk}:{policy}"
    replay, effects = get_or_compute(key, compute, seconds=FIGURES_SECONDS)
    return Figures(replay.narrow_to(scope), effects)


def find_changes(project: Project) -> dict[str, Change]:
    rows = Event.objects.about(project.pk).filter(kind=Kind.PROJECT_POLICIES_CHANGED)
    found: dict[str, Change] = {}
    for row in rows.order_by("-id")[:CHANGES_READ]:
        change = Change(row.at, row.actor_name, str(row.data.get("reason") or ""))
        for name in row.data:
            found.setdefault(name, change)
    return found
