"""Let types and plans have targets for tasks, as agents do."""

from django.db import models
from django.db.migrations import (
    AddConstraint,
    CreateModel,
    DeleteModel,
    RunSQL,
    SeparateDatabaseAndState,
)
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q
from django.db.models.deletion import CASCADE

from ledger.migrations._steps import check, key, unique, uuid7

# The table is small: one row for each target that a person has set. An earlier version that still
# runs writes agents' targets without their project, and sees no others.
WIDEN = """
alter table retries_tasktarget
    drop constraint retries_tasktarget_pkey,
    add column id uuid default uuidv7() not null primary key,
    add column project_id uuid references ledger_project deferrable initially deferred,
    add column type varchar(64) default '' not null,
    add column plan_id uuid references ledger_plan deferrable initially deferred,
    alter column agent_id drop not null;
"""
# It comes last: a table with changed rows can't be altered in the same transaction.
FILL = """update retries_tasktarget g set project_id = a.project_id
from ledger_agent a where a.id = g.agent_id"""
NARROW = """
delete from retries_tasktarget where agent_id is null;
alter table retries_tasktarget
    drop column plan_id, drop column type, drop column project_id, drop column id,
    add constraint retries_tasktarget_pkey primary key (agent_id, measure);
"""
OF_AGENT = Q(agent__isnull=False, type="", plan__isnull=True)
OF_PLAN = Q(agent__isnull=True, type="", plan__isnull=False, project__isnull=False)
OF_TYPE = Q(agent__isnull=True, plan__isnull=True, project__isnull=False) & ~Q(type="")
# Django can't change a composite primary key.
STATE = [
    DeleteModel("TaskTarget"),
    CreateModel(
        "TaskTarget",
        [
            ("id", uuid7()),
            (
                "project",
                key(
                    "ledger.project",
                    CASCADE,
                    null=True,
                    help_text="null: an earlier version set it, for an agent",
                ),
            ),
            (
                "agent",
                key(
                    "ledger.agent",
                    CASCADE,
                    null=True,
                    related_name="task_targets",
                    help_text="null: of a type or a plan",
                ),
            ),
            (
                "type",
                models.CharField(
                    max_length=64,
                    db_default="",
                    help_text="of tasks; empty: of an agent or a plan",
                ),
            ),
            (
                "plan",
                key("ledger.plan", CASCADE, null=True, help_text="null: of an agent or a type"),
            ),
            (
                "measure",
                models.CharField(choices=[("wait", "Wait"), ("run", "Run")], max_length=4),
            ),
            ("percent", models.SmallIntegerField()),
            ("within_s", models.IntegerField()),
            ("set_at", models.DateTimeField()),
            ("set_by_name", models.CharField(max_length=64)),
        ],
        options={
            "constraints": [
                check("task_target_possible", Q(percent__gte=1, percent__lte=99, within_s__gte=1))
            ]
        },
    ),
]


class Migration(BaseMigration):
    dependencies = [("retries", "0036_attempt_output")]

    operations = [
        SeparateDatabaseAndState([RunSQL(WIDEN, NARROW)], STATE),
        AddConstraint(
            "tasktarget", check("task_target_of_one_subject", OF_AGENT | OF_PLAN | OF_TYPE)
        ),
        AddConstraint(
            "tasktarget",
            unique(
                "task_target_once",
                "project",
                "agent",
                "type",
                "plan",
                "measure",
                nulls_distinct=False,
            ),
        ),
        RunSQL(FILL, RunSQL.noop),
    ]
