"""The agent: a named worker."""

from datetime import datetime
from typing import Any, Self

from django.db import models

from ledger.models.fields import key, stamp
from ledger.models.project import Project, VisibleQuerySet
from ledger.states import RetryOn
from ledger.values.account_windows import MOST_WAIT, LimitWindow, WindowFact

CONCURRENCY = (1, 1000)
SYSTEM_TEXT_LENGTH = 16_000
ACCOUNT_LENGTH = 64


class AgentQuerySet(VisibleQuerySet["Agent"]):
    agent_path = "id"

    def workers(self) -> Self:
        return self.filter(is_pool=False)

    def pools(self) -> Self:
        return self.filter(is_pool=True, removed_at=None)

    def of_account(self, account: Any) -> Self:
        """Return those whose calls are billed to an account, a name or an expression."""
        # Written with both columns, so that the index of names can find an agent's own account.
        return self.filter(models.Q(account=account) | models.Q(account="", name=account))

    def with_account_key(self) -> Self:
        """Add `account_key`: the name of the account that the agent's calls are billed to."""
        name = models.Case(models.When(account="", then=models.F("name")), default="account")
        return self.annotate(account_key=name)


class Agent(models.Model):
    """A named worker; several processes can work under one name.

    A pool is an agent too, because tasks are sent to either one by its name. Its members claim its
    tasks, and it makes no call of its own.
    """

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    name = models.CharField(max_length=64)
    paused = models.BooleanField(db_default=False)
    concurrency = models.SmallIntegerField(
        null=True, blank=True, help_text="maximum number of concurrent attempts; empty for no limit"
    )
    # the account that its calls are billed to; without a name the account has the agent's own
    account = models.CharField(max_length=ACCOUNT_LENGTH, blank=True, db_default="")
    system_text = models.TextField(
        db_default="", help_text="text placed before the prompt of each task"
    )
    # The agent's account is at a limit: it gets no task until then, because of this line of an
    # error. `wait_step_s` is the length that the next such wait doubles. `waits_in_row` waits have
    # followed each other without a success since `waits_since`.
    waits_until = models.DateTimeField(null=True, editable=False)
    waits_for = models.TextField(db_default="", editable=False)
    wait_step_s = models.SmallIntegerField(db_default=0, editable=False)
    waits_in_row = models.IntegerField(db_default=0, editable=False)
    waits_since = models.DateTimeField(null=True, editable=False)
    last_seen_at = models.DateTimeField(null=True, editable=False)
    # when it last got or reported work, to a few seconds: see ledger/values/poll_waits.py
    last_worked_at = models.DateTimeField(null=True, editable=False)
    created_at = stamp()
    is_pool = models.BooleanField(db_default=False, editable=False)
    # Most agents are in no pool, and their claims look at no pool: see retries/claims.py.
    in_pools = models.BooleanField(db_default=False, editable=False)
    retry_on = models.CharField(
        max_length=5,
        choices=RetryOn.choices,
        db_default=RetryOn.ANY,
        help_text="the members of the pool that retry a task, unless the task says otherwise",
    )
    # A removed pool stays for its past tasks. No task can be sent to it.
    removed_at = models.DateTimeField(null=True, editable=False)

    objects = AgentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="agent_name_unique"),
            models.CheckConstraint(
                condition=models.Q(concurrency=None) | models.Q(concurrency__range=CONCURRENCY),
                name="agent_concurrency_in_range",
            ),
            models.CheckConstraint(
                condition=models.Q(retry_on__in=RetryOn.values), name="agent_retry_on_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def account_name(self) -> str:
        return self.account or self.name


class PoolMember(models.Model):
    """`agent` claims tasks of `pool`; written by `ledger.pools`."""

    pk = models.CompositePrimaryKey("agent_id", "pool_id")
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="pool_seats", db_index=False)
    pool = models.ForeignKey(Agent, models.CASCADE, related_name="member_seats")
    added_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.agent_id} in {self.pool_id}"


class AccountWindowQuerySet(models.QuerySet["AccountWindow"]):
    def at_limit(self, now: datetime) -> Self:
        return self.filter(used__gte=1, resets_at__gt=now, seen_at__gt=now - MOST_WAIT)


class AccountWindow(models.Model):
    """How much of an account's limit is used in one window; written by `ledger.accounts`."""

    id = key()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    account = models.CharField(max_length=ACCOUNT_LENGTH)
    window = models.CharField(max_length=10)
    used = models.FloatField(help_text="share that is used; from 1 on, calls are refused")
    resets_at = models.DateTimeField(null=True)
    source = models.CharField(max_length=10)
    # of the newest fact; an older one changes nothing
    seen_at = models.DateTimeField()
    facts = models.IntegerField(
        db_default=1, help_text="how many facts there were since its last reset"
    )

    objects = AccountWindowQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "account", "window"], name="account_window_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.account}: {self.window}"

    @property
    def fact(self) -> WindowFact:
        return WindowFact(LimitWindow(self.window), self.used, self.resets_at, self.seen_at)


class DailyTaskCount(models.Model):
    """The number of tasks that an agent's own tokens created and stored on one day, the latest."""

    agent = models.OneToOneField(Agent, models.CASCADE, primary_key=True)
    day = models.DateField()
    tasks = models.IntegerField()
    # of sessions and their messages
    session_bytes = models.BigIntegerField(db_default=0)

    def __str__(self) -> str:
        return f"{self.tasks} on {self.day}"
