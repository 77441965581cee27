"""Store when tasks and plans may start at the earliest, and whose files must not overlap."""

from django.db import models
from django.db.migrations import (
    AddConstraint,
    AddField,
    RemoveConstraint,
    RunSQL,
    SeparateDatabaseAndState,
)
from django.db.migrations import Migration as BaseMigration

from ledger.migrations._steps import check

REASON = (
    "(state = 'blocked') = (blocked_reason is not null) and blocked_reason ~ "
    "'^(dependency|dependency_skipped|breaker_open|reported|not_before)$'"
)
# The next migration validates it: that reads all tasks, and must not keep them locked meanwhile.
REPLACE = f"""alter table ledger_task drop constraint task_blocked_has_reason,
    add constraint task_blocked_has_reason check ({REASON}) not valid"""

QUEUE = """update ledger_task set state = 'queued', blocked_reason = null
    where state = 'blocked' and blocked_reason = 'not_before'"""

FUNCTIONS = r"""
-- Most paths need none of the replacements.
create or replace function ledger_file_folder(path text) returns text
    language sql immutable parallel safe return
    case when path ~ '(^|[\\/])\.\.([\\/]|$)' then ''
    when path ~ '[\\*?[{]|//|/\.(/|$)|/$|^[.\s]|\s$' then
        rtrim(regexp_replace(regexp_replace(regexp_replace(
            translate(btrim(path), '\', '/'), '(^|/)[^/]*[*?[{].*$', ''),
            '/+(\.(/+|$))*', '/', 'g'), '^(\.(/|$))+', ''), '/')
    else path end;
comment on function ledger_file_folder is
    'a declared file without . and / that say nothing; of a glob, the folder before it; with .., '
    'which may lead anywhere, the whole project';

create or replace function ledger_folders_overlap(a text, b text) returns boolean
    language sql immutable parallel safe return
    a = b or a = '' or b = '' or starts_with(a, b || '/') or starts_with(b, a || '/');

create or replace function ledger_files_overlap(a jsonb, b jsonb) returns boolean
    language sql immutable parallel safe return exists (
        select from jsonb_array_elements_text(a) x, jsonb_array_elements_text(b) y
        where btrim(x) <> '' and btrim(y) <> ''
            and ledger_folders_overlap(ledger_file_folder(x), ledger_file_folder(y)));
comment on function ledger_files_overlap is
    'whether two lists of declared files have a file, or a folder above it, in common';

-- Each query in it sees what was committed before it began, not only before its caller began.
create or replace function ledger_files_holder(
    task uuid, plan uuid, agent uuid, task_state text, task_priority int, files jsonb
) returns uuid language plpgsql volatile cost 1000000 as $$
declare
    holder uuid;
    first uuid;
begin
    select r.id into holder
    from ledger_task r, jsonb_array_elements_text(r.payload -> 'files') x,
        jsonb_array_elements_text(files) y
    where r.plan_id = plan and r.exclusive and r.state = 'running' and r.id <> task
        and btrim(x) <> '' and btrim(y) <> ''
        and ledger_folders_overlap(ledger_file_folder(x), ledger_file_folder(y))
    order by r.id limit 1;
    if holder is not null or task_state <> 'queued' then
        return holder;
    end if;
    select q.id into holder from ledger_task q
    where q.agent_id = agent and q.plan_id = plan and q.exclusive and q.state = 'retry'
        and q.due_at <= clock_timestamp() and q.priority >= task_priority
        and ledger_files_overlap(q.payload -> 'files', files)
    order by q.due_at limit 1;
    if holder is not null then
        return holder;
    end if;
    select q.id into first from ledger_task q
    where q.agent_id = agent and q.plan_id = plan and q.exclusive and q.state = 'queued'
    order by q.priority desc, q.id limit 1;
    if first <> task then
        select q.id into holder from ledger_task q
        where q.id = first and (-q.priority::bigint, q.id) < (-task_priority::bigint, task)
            and ledger_files_overlap(q.payload -> 'files', files);
    end if;
    return holder;
end $$;
comment on function ledger_files_holder is
    'the task that a task waits for because of their files: a running one of its plan, or a due '
    'retry or the queue''s first task of its agent and plan, which others do not overtake';

create or replace function ledger_take_files(
    project uuid, task uuid, plan uuid, agent uuid, task_state text, task_priority int, files jsonb
) returns boolean language plpgsql volatile cost 1000000 as $$
begin
    if files is null or files = '[]' then
        return true;
    end if;
    -- as an expression it takes half the time of a statement
    if pg_advisory_xact_lock(hashtext('tenfour.files'), hashtext(project::text)) is null then
        return false;
    end if;
    return ledger_files_holder(task, plan, agent, task_state, task_priority, files) is null;
end $$;
comment on function ledger_take_files is
    'whether a claim may start the task; until it commits, claims of other such tasks wait';
"""
DROP = """drop function ledger_take_files, ledger_files_holder, ledger_files_overlap,
    ledger_folders_overlap, ledger_file_folder"""


class Migration(BaseMigration):
    dependencies = [("ledger", "0049_account_windows")]

    operations = [
        # An import writes the plan first, too, so neither waits for the other.
        AddField(
            "plan",
            "not_before",
            models.DateTimeField(null=True, help_text="none of its tasks starts before it"),
        ),
        AddField(
            "plan",
            "exclusive_files",
            models.BooleanField(
                db_default=False, help_text="tasks with the same files don't run at once"
            ),
        ),
        AddField(
            "task",
            "not_before",
            models.DateTimeField(null=True, help_text="no attempt starts before it"),
        ),
        AddField(
            "task",
            "exclusive",
            models.BooleanField(
                db_default=False,
                help_text="it waits for running tasks of its plan with the same files",
            ),
        ),
        SeparateDatabaseAndState(
            [RunSQL(REPLACE, QUEUE)],
            [
                RemoveConstraint("task", "task_blocked_has_reason"),
                AddConstraint("task", check("task_blocked_has_reason", REASON)),
            ],
        ),
        RunSQL(FUNCTIONS, DROP),
    ]
