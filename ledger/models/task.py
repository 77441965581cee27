"""The task, its needs, attempts and failures."""

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q

from ledger.authorization.principal import Principal
from ledger.models.agent import Agent, PoolMember
from ledger.models.fields import assignee_key, key, one_of, rule
from ledger.models.plan import Plan
from ledger.models.project import Project, VisibleQuerySet
from ledger.states import (
    FINAL,
    BlockedReason,
    EvidenceLevel,
    FailureType,
    Outcome,
    Proof,
    RetryOn,
    TaskState,
)


class OnExhausted(models.TextChoices):
    """The action when a task has no attempts left."""

    ESCALATE = "escalate"
    DEAD_LETTER = "dead_letter"


def has_proof(proof: str) -> Q:
    """Return the condition that a task is done with this proof: see `ledger.states.proof_of`."""
    is_old = Q(state=TaskState.DONE, proof=None) if proof == Proof.CLAIMED else Q(pk=None)
    return Q(proof=proof) | is_old


class TaskQuerySet(models.QuerySet["Task"]):
    def current(self) -> Self:
        return self.filter(replaced_by=None)

    def visible_to(self, principal: Principal) -> Self:
        if not principal.is_agent:
            return self.filter(project_id=principal.project_id)
        if principal.agent_id is None or not principal.in_pools:
            return self.filter(agent_id=principal.agent_id)
        # its own tasks, and those that wait in its pools: few ids, so that an index serves lists
        seats = PoolMember.objects.filter(agent_id=principal.agent_id)
        queues = [principal.agent_id, *seats.values_list("pool_id", flat=True)]
        return self.filter(agent_id__in=queues)


class Task(models.Model):
    """A unit of work for one agent.

    `attempts` is the number of the last attempt and `attempt_limit` the only budget: attempts are
    left while the first is below the second. `retry_count` counts the failures of the round.
    """

    id = key()
    # Projects and agents are never deleted, and foreign key checks would take a fifth of the time
    # of an insert; `manage.py audit_ledger` checks instead.
    project = models.ForeignKey(Project, models.PROTECT, db_index=False, db_constraint=False)
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False, db_constraint=False)
    # The pool that it was sent to, which is also its agent while it waits in the pool's queue. A
    # claim gives it to a member: see the function `task_to` in ledger/moves.py.
    pool = models.ForeignKey(
        Agent,
        models.PROTECT,
        null=True,
        db_index=False,
        db_constraint=False,
        related_name="pool_tasks",
    )
    retry_on = models.CharField(  # noqa: DJ001 - null: as its plan or its pool says
        max_length=5, null=True, choices=RetryOn.choices
    )
    plan = models.ForeignKey(Plan, models.PROTECT, null=True, db_index=False)
    ref = models.CharField(max_length=258, null=True)  # noqa: DJ001 - null: not in a plan
    run = models.IntegerField(null=True, help_text="the plan's run that created the task")
    title = models.CharField(max_length=200, db_default="")
    type = models.CharField(max_length=64)
    state = models.CharField(max_length=12, choices=TaskState.choices)
    blocked_reason = models.CharField(max_length=20, null=True)  # noqa: DJ001 - null: not blocked
    priority = models.IntegerField(db_default=0)
    payload = models.JSONField()
    result = models.JSONField(null=True)
    error = models.TextField(null=True)  # noqa: DJ001 - null: the last attempt did not fail
    # null: not done, or done before proofs were stored; the latter counts as claimed
    proof = models.CharField(max_length=8, null=True, choices=Proof.choices)  # noqa: DJ001
    retry_count = models.IntegerField(db_default=0)
    max_attempts = models.IntegerField()
    attempt_limit = models.IntegerField()
    attempts = models.IntegerField(db_default=0)
    releases = models.SmallIntegerField(db_default=0, help_text="releases in this round")
    unmet = models.IntegerField(db_default=0, help_text="needs not met yet")
    needed_by = models.IntegerField(db_default=0, help_text="tasks that need this one")
    on_exhausted = models.CharField(max_length=12, choices=OnExhausted.choices)
    # null: as its plan or its project says
    evidence = models.CharField(max_length=8, null=True, choices=EvidenceLevel.choices)  # noqa: DJ001
    base_delay_ms = models.IntegerField()
    max_delay_ms = models.IntegerField()
    exponential_base = models.FloatField()
    jitter = models.BooleanField()
    lease_s = models.IntegerField()
    timeout_s = models.IntegerField()
    idempotent = models.BooleanField()
    non_retryable = models.BooleanField(db_default=False)
    redactions = models.JSONField(db_default={}, help_text="number of masked secrets by kind")
    due_at = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True, help_text="no attempt starts before it")
    exclusive = models.BooleanField(
        db_default=False, help_text="it waits for running tasks of its plan with the same files"
    )
    held_folders = ArrayField(
        models.TextField(),
        null=True,
        editable=False,
        help_text="of its files when it was last claimed, see ledger_held_folders",
    )
    spent_until = models.DateTimeField(
        null=True, editable=False, help_text="its budget is used up until then"
    )
    due_noted_at = models.DateTimeField(null=True, editable=False)
    assignee = assignee_key(db_constraint=False)  # so that inserts stay fast, as above
    current_attempt = models.UUIDField(null=True)
    abort_requested_at = models.DateTimeField(null=True)
    replay_of = models.ForeignKey(
        "self", models.PROTECT, null=True, db_index=False, related_name="replays"
    )
    replaced_by = models.ForeignKey(
        "self", models.PROTECT, null=True, db_index=False, related_name="replaces"
    )
    carries = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        db_index=False,
        related_name="carried_by",
        help_text="the task of the previous run whose attempts and failures count for this one",
    )
    version = models.IntegerField(db_default=1)
    created_by_type = models.CharField(max_length=12)
    created_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints = [
            rule("task_state_known", f"state ~ '{one_of(TaskState.values)}'"),
            rule(
                "task_blocked_has_reason",
                f"(state = '{TaskState.BLOCKED}') = (blocked_reason is not null)"
                f" and blocked_reason ~ '{one_of(BlockedReason.values)}'",
            ),
            rule(
                "task_running_has_attempt",
                f"(state = '{TaskState.RUNNING}') = (current_attempt is not null)",
            ),
            rule(
                "task_final_has_completed_at",
                f"(state ~ '{one_of(FINAL)}') = (completed_at is not null)",
            ),
            rule(
                "task_done_has_proof",
                f"proof is null or state = '{TaskState.DONE}' and proof ~ '{one_of(Proof.values)}'",
            ),
            rule("task_retry_due_at", f"state <> '{TaskState.RETRY}' or due_at is not null"),
            rule(
                "task_counts_positive",
                "least(unmet, retry_count, attempts, attempt_limit - attempts) >= 0",
            ),
            rule("task_in_plan_has_ref", "num_nulls(plan_id, ref, run) in (0, 3)"),
            models.UniqueConstraint(
                fields=["project", "ref", "run"],
                condition=Q(ref__isnull=False, replaced_by=None),
                name="task_ref_once",
            ),
        ]
        indexes = [
            models.Index(
                F("agent"),
                F("priority").desc(),
                F("id"),
                condition=Q(state=TaskState.QUEUED),
                name="task_queue",
            ),
            models.Index(
                fields=["agent", "due_at"], condition=Q(state=TaskState.RETRY), name="task_retries"
            ),
            models.Index(fields=["due_at"], condition=Q(state=TaskState.RETRY), name="task_due"),
            models.Index(
                fields=["agent", "not_before"],
                condition=Q(blocked_reason=BlockedReason.NOT_BEFORE),
                name="task_starts",
            ),
            models.Index(
                fields=["not_before"],
                condition=Q(blocked_reason=BlockedReason.NOT_BEFORE),
                name="task_start_due",
            ),
            # see the function ledger_find_files_holder
            models.Index(
                F("agent"),
                F("plan"),
                F("priority").desc(),
                F("id"),
                condition=Q(exclusive=True, state=TaskState.QUEUED),
                name="task_exclusive_queue",
            ),
            *(
                models.Index(
                    F(scope),
                    F("priority").desc(),
                    F("id"),
                    condition=Q(exclusive=True, state__in=[TaskState.QUEUED, TaskState.RETRY]),
                    name=f"task_files_in_{scope}",
                )
                for scope in ("plan", "project")
            ),
            models.Index(
                fields=["project", "plan"],
                condition=Q(exclusive=True, state=TaskState.RUNNING),
                name="task_files_running",
            ),
            models.Index(
                fields=["agent"], condition=Q(state=TaskState.BLOCKED), name="task_blocked"
            ),
            models.Index(fields=["project", "id"], name="task_project"),
            models.Index(fields=["agent", "id"], name="task_agent"),
            models.Index(fields=["pool", "id"], condition=Q(pool__isnull=False), name="task_pool"),
            models.Index(
                fields=["pool", "completed_at"],
                condition=Q(pool__isnull=False) & Q(completed_at__isnull=False),
                name="task_pool_completed",
            ),
            models.Index(
                fields=["pool"],
                condition=Q(pool__isnull=False) & ~Q(state__in=FINAL),
                name="task_of_pool_open",
            ),
            models.Index(fields=["plan", "id"], condition=Q(plan__isnull=False), name="task_plan"),
            models.Index(
                fields=["assignee", "id"], condition=Q(assignee__isnull=False), name="task_assignee"
            ),
            # includes running tasks: an index on that state would cost every claim a write
            models.Index(
                fields=["plan"],
                condition=Q(plan__isnull=False) & ~Q(state__in=FINAL),
                name="task_of_plan_under_way",
            ),
            models.Index(
                fields=["state", "id"], condition=~Q(state=TaskState.DONE), name="task_not_done"
            ),
            # to find the tasks that changed in a period, beside the tasks above: it is written once
            # per task, but an index of all tasks would cost every move
            models.Index(
                fields=["updated_at"], condition=Q(state=TaskState.DONE), name="task_done_changed"
            ),
            # to find the tasks with several attempts: other tasks do not write to it
            models.Index(fields=["state", "id"], condition=Q(attempts__gt=1), name="task_retried"),
            # only the few tasks with a rare proof
            models.Index(
                fields=["proof", "id"],
                condition=Q(proof__in=[Proof.STALE, Proof.PERSON]),
                name="task_rare_proof",
            ),
            # only the few linked tasks: before a task is deleted, they show the links to it
            *(
                models.Index(
                    fields=[name], condition=Q(**{f"{name}__isnull": False}), name=f"task_{name}"
                )
                for name in ("replay_of", "replaced_by", "carries")
            ),
        ]

    def __str__(self) -> str:
        return self.title or f"{self.type} {self.id}"

    @property
    def sent_to(self) -> Agent:
        """Return the pool that another run of it is sent to, or else its agent."""
        return self.agent if self.pool is None or self.pool.removed_at else self.pool


class TaskHistory(models.Model):
    """The moves of tasks in the journal: a view for the admin, psql and Grafana."""

    id = models.UUIDField(primary_key=True)
    task = models.ForeignKey(Task, models.DO_NOTHING, related_name="history")
    from_state = models.CharField(max_length=16)
    to_state = models.CharField(max_length=16)
    error = models.TextField(null=True)  # noqa: DJ001 - null: no error
    timestamp = models.DateTimeField()

    class Meta:
        managed = False
        db_table = "task_history"
        verbose_name_plural = "task history"

    def __str__(self) -> str:
        return f"{self.from_state} → {self.to_state}"


class Need(models.Model):
    """`task` waits until `need` is met."""

    pk = models.CompositePrimaryKey("task_id", "need_id")
    task = models.ForeignKey(Task, models.CASCADE, related_name="needs", db_index=False)
    need = models.ForeignKey(Task, models.CASCADE, related_name="dependents")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(task=F("need")), name="need_is_another_task")
        ]

    def __str__(self) -> str:
        return f"{self.task_id} needs {self.need_id}"


class MissingNeed(models.Model):
    """`task` waits for `ref`, a plan or a plan's task that is not imported yet."""

    pk = models.CompositePrimaryKey("task_id", "ref")
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    task = models.ForeignKey(Task, models.CASCADE, related_name="missing_needs", db_index=False)
    ref = models.CharField(max_length=258)

    class Meta:
        indexes = [models.Index(fields=["project", "ref"], name="missing_need_ref")]

    def __str__(self) -> str:
        return f"{self.task_id} needs {self.ref}"


class AttemptQuerySet(VisibleQuerySet["Attempt"]):
    project_path = "task__project_id"


class Attempt(models.Model):
    """One execution under a lease; its id is the fencing token that a report must name."""

    id = key()
    # The statement that moves the task writes this row, and no task is ever deleted: a foreign key
    # check costs every claim a few percent. `manage.py audit_ledger` checks instead.
    task = models.ForeignKey(
        Task, models.PROTECT, db_index=False, db_constraint=False, related_name="attempt_set"
    )
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False, db_constraint=False)
    number = models.IntegerField()
    worker_id = models.CharField(max_length=128, db_default="")
    outcome = models.CharField(max_length=12, null=True)  # noqa: DJ001 - null: it is live
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    lease_s = models.IntegerField()
    lease_expires_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField(null=True)
    heartbeats = models.IntegerField(db_default=0)
    progress = models.JSONField(null=True)
    last_output = models.TextField(db_default="", help_text="last lines, sent with heartbeats")
    report_digest = models.BinaryField(max_length=32, null=True, editable=False)
    decision = models.JSONField(null=True)
    usage = models.JSONField(null=True, help_text="tokens and cost, as its report says")
    checks = models.JSONField(null=True, help_text="commands that checked its work, oldest first")
    tree = models.JSONField(null=True, help_text="commit and differences that it left")
    # The span of the caller that claimed it, or Tenfour's own; empty if neither traces.
    trace_id = models.CharField(max_length=32, db_default="")
    span_id = models.CharField(max_length=16, db_default="")
    # The retry context that the agent got; null if there was none.
    context_version = models.SmallIntegerField(null=True, help_text="version of the renderer")
    context_variant = models.CharField(  # noqa: DJ001 - null: no context
        max_length=32, null=True, help_text="variant of the retry context under test"
    )
    context_elements = models.JSONField(null=True, help_text="number of elements by name")
    context_chars = models.IntegerField(null=True, help_text="size in characters")
    context_sha256 = models.BinaryField(max_length=32, null=True, editable=False)

    objects = AttemptQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["task", "number"], name="attempt_number_once"),
            models.UniqueConstraint(
                fields=["task"], condition=Q(outcome=None), name="attempt_live_once"
            ),
            rule(
                "attempt_outcome_has_ended_at",
                f"(outcome is null) = (ended_at is null) and outcome ~ '{one_of(Outcome.values)}'",
            ),
        ]
        indexes = [
            # `lease_expires_at` stays out of it, so that heartbeats touch no index.
            models.Index(fields=["agent", "id"], condition=Q(outcome=None), name="attempt_live"),
            # for coding agents whose hooks work on tasks: see retries/agent_hooks/sessions.py
            models.Index(
                fields=["worker_id", "id"],
                condition=Q(worker_id__startswith="session:"),
                name="attempt_session",
            ),
            # for attempts in an experiment: see retries/insight/experiments.py
            models.Index(
                fields=["context_variant", "started_at"],
                condition=Q(context_variant__startswith="with"),
                name="attempt_in_experiment",
            ),
            # see retries/insight/figures/costs.py
            models.Index(
                fields=["agent", "id"], condition=Q(usage__isnull=False), name="attempt_with_usage"
            ),
            # for spans that name only their trace: see retries/traces/storing.py
            models.Index(
                fields=["trace_id", "id"], condition=~Q(trace_id=""), name="attempt_trace"
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.task_id}"


class Failure(models.Model):
    """The failure of one attempt."""

    id = key()
    attempt = models.OneToOneField(Attempt, models.PROTECT, related_name="failure")
    task = models.ForeignKey(Task, models.PROTECT, related_name="failures")
    at = models.DateTimeField()
    type = models.CharField(max_length=20, choices=FailureType.choices)
    code = models.CharField(max_length=64, db_default="")
    message = models.TextField()
    details = models.TextField(db_default="")
    root_cause_guess = models.TextField(db_default="")
    suggested_fix = models.TextField(db_default="")
    verification = models.JSONField(null=True)
    files_modified = models.JSONField(db_default=[])
    learnings = models.JSONField(db_default=[])
    telling_lines = models.TextField(  # noqa: DJ001 - null: the clock computes them
        null=True, help_text="headline, then other telling lines; null: not computed yet"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(type__in=FailureType.values), name="failure_type_known"
            )
        ]
        indexes = [
            # see ledger/search_words.py
            GinIndex(
                Func("type", "code", "message", "telling_lines", function="ledger_failure_words"),
                name="failure_search",
            ),
            models.Index(fields=["id"], name="failure_unread", condition=Q(telling_lines=None)),
        ]

    def __str__(self) -> str:
        return f"{self.type}: {self.message[:50]}"

    @property
    def texts(self) -> tuple[str, str, str]:
        """Return the verification's output, the details, and the message."""
        return str((self.verification or {}).get("output") or ""), self.details, self.message
