"""The session: an agent's conversation, its messages, and the tasks that were found in it."""

from datetime import datetime

from django.db import models
from django.db.models import F, Q

from ledger.models.agent import Agent
from ledger.models.fields import key, one_of, rule
from ledger.models.project import Project, VisibleQuerySet
from ledger.models.task import Attempt, Task
from ledger.states import BatchOutcome, MessageState, SessionTaskState


class TrackerName(models.TextChoices):
    """The method that turns a session's messages into tasks."""

    TODO = "todo"
    LLM = "llm"
    NONE = "none"


class Session(models.Model):
    """A conversation of one agent, which may span several attempts and tasks.

    The counters are kept on the row, so that a list of sessions reads no messages. Messages that
    are in none of the counted states are disabled: stored, but never processed.
    """

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False, db_constraint=False)
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False, db_constraint=False)
    external_id = models.CharField(  # noqa: DJ001 - null: the caller gave none
        max_length=200, null=True, help_text="the caller's own name of the session"
    )
    title = models.CharField(max_length=160, db_default="", help_text="start of the first prompt")
    tracker = models.CharField(max_length=4, choices=TrackerName.choices)
    disable_task_tracking = models.BooleanField(
        db_default=False, help_text="messages are stored and never processed"
    )
    metadata = models.JSONField(db_default={})
    preferences = models.JSONField(
        db_default=[], help_text="what the user wants, in a tracker's words"
    )
    message_count = models.IntegerField(db_default=0)
    pending_count = models.IntegerField(db_default=0)
    running_count = models.IntegerField(db_default=0)
    success_count = models.IntegerField(db_default=0)
    failed_count = models.IntegerField(db_default=0)
    task_count = models.IntegerField(db_default=0)
    task_running_count = models.IntegerField(db_default=0)
    task_success_count = models.IntegerField(db_default=0)
    task_failed_count = models.IntegerField(db_default=0)
    task_dropped_count = models.IntegerField(db_default=0)
    # Indexed, so it is moved at most every few seconds: see SLACK in ledger/sessions/statements.py.
    last_message_at = models.DateTimeField(help_text="or when the session was created")
    last_outcome = models.CharField(  # noqa: DJ001 - null: no batch has ended
        max_length=8, null=True, help_text="outcome of the last batch"
    )
    # Only the worker that holds the token may change messages, tasks and batches until then.
    lock_token = models.UUIDField(null=True, editable=False)
    lock_until = models.DateTimeField(null=True, editable=False)
    version = models.IntegerField(db_default=1)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = VisibleQuerySet["Session"].as_manager()

    class Meta:
        constraints = [
            rule("session_tracker_known", f"tracker ~ '{one_of(TrackerName.values)}'"),
            rule(
                "session_counts_positive",
                "least(pending_count, running_count, success_count, failed_count, task_count, "
                "task_running_count, task_success_count, task_failed_count, message_count "
                "- pending_count - running_count - success_count - failed_count) >= 0",
            ),
            rule("session_lock_has_end", "(lock_token is null) = (lock_until is null)"),
            models.UniqueConstraint(
                fields=["agent", "external_id"],
                condition=Q(external_id__isnull=False),
                name="session_external_id_once",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "id"], name="session_project"),
            models.Index(fields=["agent", "id"], name="session_agent"),
            models.Index(
                F("project"), F("last_message_at").desc(), F("id").desc(), name="session_activity"
            ),
            # of all projects
            models.Index(F("last_message_at").desc(), F("id").desc(), name="session_latest"),
        ]

    def __str__(self) -> str:
        return self.title or self.external_id or str(self.id)

    @property
    def is_tracked(self) -> bool:
        return not self.disable_task_tracking and self.tracker != TrackerName.NONE

    @property
    def disabled_count(self) -> int:
        counted = (self.pending_count, self.running_count, self.success_count, self.failed_count)
        return self.message_count - sum(counted)

    def is_locked(self, now: datetime) -> bool:
        return self.lock_until is not None and self.lock_until > now


class SessionTaskQuerySet(VisibleQuerySet["SessionTask"]):
    project_path, agent_path = "session__project_id", "session__agent_id"


class SessionTask(models.Model):
    """A to-do that was found in a session; it can be linked to a task, but is never claimed."""

    id = key()
    session = models.ForeignKey(Session, models.CASCADE, db_index=False, related_name="task_set")
    order = models.IntegerField(help_text="position in the session's list, from 1")
    description = models.TextField()
    progress = models.JSONField(db_default=[], help_text="notes, oldest first")
    state = models.CharField(
        max_length=8, choices=SessionTaskState.choices, db_default=SessionTaskState.PENDING
    )
    task = models.ForeignKey(
        Task,
        models.SET_NULL,
        null=True,
        related_name="session_task_set",
        help_text="the task that a person or a producer made of it or linked to it",
    )
    version = models.IntegerField(db_default=1)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = SessionTaskQuerySet.as_manager()

    class Meta:
        constraints = [
            rule("session_task_state_known", f"state ~ '{one_of(SessionTaskState.values)}'"),
            rule("session_task_order_positive", '"order" >= 1'),
            # deferred: an insertion moves the tasks behind it
            models.UniqueConstraint(
                fields=["session", "order"],
                name="session_task_order_once",
                deferrable=models.Deferrable.DEFERRED,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.order}. {self.description[:80]}"


class SessionBatch(models.Model):
    """The messages that one run of a tracker processed, and what came of it."""

    id = key()
    session = models.ForeignKey(Session, models.CASCADE, related_name="batch_set")
    tracker = models.CharField(max_length=4, choices=TrackerName.choices)
    first_order = models.IntegerField(help_text="order of its first message")
    last_order = models.IntegerField()
    message_count = models.IntegerField()
    outcome = models.CharField(  # noqa: DJ001 - null: it is running
        max_length=8, choices=BatchOutcome.choices, null=True
    )
    reason = models.TextField(db_default="", help_text="why it failed")
    responses = models.IntegerField(db_default=0, help_text="model responses that took effect")
    calls = models.IntegerField(db_default=0, help_text="ledger tool calls in them")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            rule(
                "session_batch_outcome_has_ended_at",
                "(outcome is null) = (ended_at is null)"
                f" and outcome ~ '{one_of(BatchOutcome.values)}'",
            ),
            models.UniqueConstraint(
                fields=["session"], condition=Q(outcome=None), name="session_batch_live_once"
            ),
        ]

    def __str__(self) -> str:
        return f"messages {self.first_order} to {self.last_order} of {self.session_id}"


class MessageQuerySet(VisibleQuerySet["Message"]):
    project_path, agent_path = "session__project_id", "session__agent_id"


class Message(models.Model):
    """One message; `content` is the list of parts of `ledger.sessions.message_parts`."""

    id = key()
    # A message is inserted by the statement that changes its session's row, so that no check is
    # needed: it would take a tenth of the time of the insert.
    session = models.ForeignKey(
        Session, models.CASCADE, db_index=False, db_constraint=False, related_name="message_set"
    )
    order = models.IntegerField(help_text="position in the session, from 1")
    role = models.CharField(max_length=9)
    content = models.JSONField()
    state = models.CharField(max_length=8, choices=MessageState.choices)
    digest = models.BinaryField(
        max_length=32, null=True, editable=False, help_text="identifies an imported message"
    )
    redactions = models.JSONField(db_default={}, help_text="number of masked secrets by kind")
    recoveries = models.SmallIntegerField(
        db_default=0, help_text="how often a lost worker's batch returned it to the buffer"
    )
    planning = models.BooleanField(
        db_default=False, help_text="about the plan as a whole rather than one task"
    )
    session_task = models.ForeignKey(
        SessionTask, models.SET_NULL, null=True, db_index=False, related_name="message_set"
    )
    batch = models.ForeignKey(
        SessionBatch, models.SET_NULL, null=True, db_index=False, related_name="message_set"
    )
    # Attempts are never deleted; see Attempt for what a foreign key check costs.
    attempt = models.ForeignKey(
        Attempt, models.SET_NULL, null=True, db_constraint=False, db_index=False
    )
    sent_at = models.DateTimeField(help_text="when it was said, or else stored")
    created_at = models.DateTimeField()

    objects = MessageQuerySet.as_manager()

    class Meta:
        constraints = [
            rule("message_state_known", f"state ~ '{one_of(MessageState.values)}'"),
            rule("message_task_or_planning", "not (planning and session_task_id is not null)"),
            models.UniqueConstraint(fields=["session", "order"], name="message_order_once"),
            models.UniqueConstraint(
                fields=["session", "digest"],
                condition=Q(digest__isnull=False),
                name="message_digest_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["session", "order"],
                condition=Q(state__in=(MessageState.PENDING, MessageState.RUNNING)),
                name="message_unprocessed",
            ),
            # partial, because a message that is stored has none of the three
            models.Index(
                fields=["session_task", "order"],
                condition=Q(session_task__isnull=False),
                name="message_task",
            ),
            models.Index(
                fields=["batch", "order"], condition=Q(batch__isnull=False), name="message_batch"
            ),
            models.Index(
                fields=["attempt", "session", "order"],
                condition=Q(attempt__isnull=False),
                name="message_attempt",
            ),
            # finds a session's last attempt, however many messages belong to none
            models.Index(
                fields=["session", "order"],
                condition=Q(attempt__isnull=False),
                name="message_linked",
            ),
        ]

    def __str__(self) -> str:
        return f"message {self.order} of {self.session_id}"
