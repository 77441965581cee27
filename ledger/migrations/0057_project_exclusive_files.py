"""Keep files exclusive in whole projects, compare them fast, and let no waiting task starve."""

from importlib import import_module

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.migrations import AddConstraint, AddField, RunSQL
from django.db.migrations import Migration as BaseMigration

from ledger.migrations._steps import check

OWN = "update ledger_plan set own_exclusive_files = true where exclusive_files"

FOLDERS = r"""
create or replace function ledger_file_folders(files jsonb) returns text[]
    language plpgsql immutable parallel safe as $$
declare
    found text[] := '{}';
    folder text;
    depth int := 12;
begin
    if jsonb_array_length(files) > 500 then
        return '{""}';
    end if;
    -- Expressions take a fraction of the time of a query.
    for place in 0 .. coalesce(jsonb_array_length(files), 0) - 1 loop
        folder := files ->> place;
        continue when btrim(folder) = '';
        folder := ledger_file_folder(folder);
        if folder = '' then
            return '{""}';
        elsif folder like repeat('%/', 12) || '%' then
            folder := array_to_string((string_to_array(folder, '/'))[:12], '/');
        end if;
        if folder <> all(found) then
            found := found || folder;
        end if;
    end loop;
    while cardinality(found) > 32 loop
        depth := depth / 2;
        if depth = 0 then
            return '{""}';
        end if;
        select array_agg(distinct array_to_string((string_to_array(f, '/'))[:depth], '/'))
        into found from unnest(found) f;
    end loop;
    return case when '' = any(found) then '{""}' else found end;
end $$;
comment on function ledger_file_folders is
    'the folders of declared files; of deep or many files, at most 32 folders above them, and of '
    'more than 500 files the whole project';

-- Two lists overlap if and only if the held form of one has an element of the wanted form of the
-- other: a folder of one is then a folder of the other, or one above it.
create or replace function ledger_held_folders(files jsonb) returns text[]
    language plpgsql immutable parallel safe as $$
declare
    folder text;
    part text;
    above text;
    found text[] := '{/}';
begin
    foreach folder in array ledger_file_folders(files) loop
        found := found || folder;
        above := null;
        foreach part in array string_to_array(folder, '/') loop
            above := coalesce(above || '/' || part, part);
            if above || '/' <> all(found) then
                found := found || (above || '/');
            end if;
        end loop;
    end loop;
    return case when cardinality(found) = 1 then '{}' else found end;
end $$;
comment on function ledger_held_folders is
    'the folders of declared files, and with a / at the end each of them and each above them';

create or replace function ledger_wanted_folders(files jsonb) returns text[]
    language plpgsql immutable parallel safe as $$
declare
    folder text;
    part text;
    above text;
    found text[] := '{""}';
begin
    foreach folder in array ledger_file_folders(files) loop
        found := found || (folder || '/');
        above := null;
        foreach part in array string_to_array(folder, '/') loop
            above := coalesce(above || '/' || part, part);
            if above <> all(found) then
                found := found || above;
            end if;
        end loop;
    end loop;
    return case when cardinality(found) = 1 then '{}' else found end;
end $$;
comment on function ledger_wanted_folders is
    'the folders of declared files with a / at the end, and each of them and each above them';

create or replace function ledger_files_overlap(a jsonb, b jsonb) returns boolean
    language sql immutable parallel safe return
    coalesce(ledger_held_folders(a) && ledger_wanted_folders(b), false);
"""

# One template for tasks of one plan and for those of a project. A task waits only for tasks before
# it in one order, so no two wait for each other: the priority, then due retries, then the id.
HOLDER = r"""
create or replace function ledger_files_holder_in_{scope}(
    project uuid, task uuid, plan uuid, agent uuid, task_state text, task_priority int,
    wanted text[]
) returns uuid language plpgsql volatile cost 1000000 as $$
declare
    holder uuid;
begin
    select r.id into holder from ledger_task r
    where r.project_id = project and r.{scope}_id = {scope} and r.exclusive
        and r.state = 'running' and r.id <> task
        and coalesce(r.held_folders, ledger_held_folders(r.payload -> 'files')) && wanted
    order by r.id limit 1;
    if holder is not null then
        return holder;
    end if;
    -- the usual case: nothing waits before it
    if (select q.id from ledger_task q
        where q.{scope}_id = {scope} and q.exclusive and q.state in ('queued', 'retry')
        order by q.priority desc, q.id limit 1) = task
    then
        return null;
    end if;
    if task_state = 'queued' then
        -- due retries of the agent, which come first
        select q.id into holder from (
            select d.id, d.project_id, d.plan_id, d.exclusive, d.priority, d.payload, d.due_at,
                d.spent_until
            from ledger_task d
            where d.agent_id = agent and d.state = 'retry' and d.due_at <= clock_timestamp()
            order by d.due_at limit 100) q
        where q.{scope}_id = {scope} and q.exclusive and q.priority >= task_priority
            and {runs}
            and ledger_held_folders(q.payload -> 'files') && wanted
        order by q.due_at limit 1;
        if holder is not null then
            return holder;
        end if;
    end if;
    if task_state = 'queued' then
        -- the first of the agent's queue in the plan
        select q.id into holder from (
            select f.id, f.priority, f.payload from ledger_task f
            where f.agent_id = agent and f.plan_id = plan and f.exclusive and f.state = 'queued'
                and (f.spent_until is null or f.spent_until <= clock_timestamp())
            order by f.priority desc, f.id limit 1) q
        where q.id <> task and (-q.priority::bigint, q.id) < (-task_priority::bigint, task)
            and ledger_held_folders(q.payload -> 'files') && wanted;
        if holder is not null then
            return holder;
        end if;
    end if;
    -- Tasks of any agent that have waited for a minute: they keep their place for ten minutes,
    -- leave it to others for ten, and so on. An agent that can't take its task keeps no place.
    select q.id into holder from (
        select f.id, f.agent_id, f.plan_id, f.state, f.priority, f.payload, f.spent_until,
            extract(epoch from clock_timestamp() - greatest(f.updated_at, f.due_at)) as waited_s
        from ledger_task f
        where f.{scope}_id = {scope} and f.exclusive and f.state in ('queued', 'retry')
            and f.priority >= task_priority
        order by f.priority desc, f.id limit 20) q
    join ledger_agent a on a.id = q.agent_id
    where q.id <> task and q.waited_s >= 60 and floor(q.waited_s / 600)::bigint % 2 = 0
        and (-q.priority::bigint, q.state = 'queued', q.id)
            < (-task_priority::bigint, task_state = 'queued', task)
        and not a.paused and {runs} and exists (
            -- of a pool, a member that can take it
            select from ledger_agent m where m.id = any(array(select a.id union all
                    select s.agent_id from ledger_poolmember s where s.pool_id = a.id))
                and not m.paused
                and m.last_seen_at > clock_timestamp() - interval '2 minutes'
                and (m.waits_until is null or m.waits_until <= clock_timestamp())
                and not exists (select from ledger_breaker b
                    where b.agent_id = m.id and b.state <> 'closed'))
        and ledger_held_folders(q.payload -> 'files') && wanted
    order by q.priority desc, q.state = 'queued', q.id limit 1;
    return holder;
end $$;
comment on function ledger_files_holder_in_{scope} is
    'the task that a task waits for because of their files: a running one, or a waiting one '
    'before it';
"""

CLAIM = r"""
create or replace function ledger_find_files_holder(
    project uuid, task uuid, plan uuid, agent uuid, task_state text, task_priority int, files jsonb
) returns uuid language plpgsql volatile cost 1000000 as $$
begin
    if (select p.exclusive_files from ledger_project p where p.id = project) = 'off' then
        return ledger_files_holder_in_plan(
            project, task, plan, agent, task_state, task_priority, ledger_wanted_folders(files));
    end if;
    return ledger_files_holder_in_project(
        project, task, plan, agent, task_state, task_priority, ledger_wanted_folders(files));
end $$;
comment on function ledger_find_files_holder is
    'the task of the plan, or of the project if its files are exclusive, that the task waits for';

-- An older version that still runs calls it.
create or replace function ledger_files_holder(
    task uuid, plan uuid, agent uuid, task_state text, task_priority int, files jsonb
) returns uuid language plpgsql volatile cost 1000000 as $$
begin
    return ledger_find_files_holder((select t.project_id from ledger_task t where t.id = task),
        task, plan, agent, task_state, task_priority, files);
end $$;

-- Each query in it sees what was committed before it began, not only before its caller began.
create or replace function ledger_take_files(
    project uuid, task uuid, plan uuid, agent uuid, task_state text, task_priority int, files jsonb
) returns boolean language plpgsql volatile cost 1000000 as $$
declare
    seen text[];
    refused int := 0;
    statement text;
begin
    if files is null or files = '[]' then
        return true;
    end if;
    -- A claim can meet very many tasks that wait, and it may evaluate one of them twice.
    statement := extract(epoch from statement_timestamp())::text;
    seen := string_to_array(current_setting('tenfour.files', true), ' ');
    if seen[1] = statement then
        if seen[3] = task::text then
            return true;
        end if;
        refused := seen[2];
        if refused >= 100 then
            return false;
        end if;
    end if;
    -- as an expression it takes half the time of a statement
    if pg_advisory_xact_lock(hashtext('tenfour.files'), hashtext(project::text)) is null then
        return false;
    end if;
    if ledger_find_files_holder(project, task, plan, agent, task_state, task_priority, files)
        is null
    then
        if refused > 0 then
            perform set_config('tenfour.files', concat_ws(' ', statement, refused, task), true);
        end if;
        return true;
    end if;
    perform set_config('tenfour.files', concat_ws(' ', statement, refused + 1, ''), true);
    return false;
end $$;
comment on function ledger_take_files is
    'whether a claim may start the task; until it commits, claims of other such tasks wait, and '
    'after 100 tasks that have to wait it starts no other such task';
"""

OUTSIDE = r"""
create or replace function ledger_files_outside(files jsonb, paths text[]) returns text[]
    language plpgsql immutable parallel safe as $$
declare
    folders text[];
    root text := '^([A-Za-z]:)?/';
begin
    if jsonb_array_length(files) > 500 then
        return '{}';
    end if;
    select array_agg(distinct ledger_file_folder(x)) into folders
    from jsonb_array_elements_text(files) x where btrim(x) <> '';
    if folders is null or '' = any(folders) then
        return '{}';
    end if;
    return array(
        select p.path from (
            select r.path, min(r.place) as place, ledger_file_folder(r.path) as at
            from unnest(paths) with ordinality r(path, place) where btrim(r.path) <> ''
            group by r.path
        ) p where not exists (
            select from unnest(folders) f where f = p.at or starts_with(p.at, f || '/')
                -- an absolute path is inside if it can be a relative one below some folder
                or p.at ~ root and f !~ root and strpos(p.at || '/', '/' || f || '/') > 0
                or f ~ root and p.at !~ root)
        order by p.place);
end $$;
comment on function ledger_files_outside is
    'those of the paths that are neither declared files nor in declared folders; a glob is the '
    'folder before it';
"""

# A task that waits for its plan or for a budget takes no file, and keeps none from others.
RUNS = """(q.spent_until is null or q.spent_until <= clock_timestamp())
            and not exists (select from ledger_plan p where p.id = q.plan_id
                and (p.paused_at is not null or p.not_before > clock_timestamp()
                    or p.spent_until > clock_timestamp()))"""
HOLDERS = [HOLDER.format(scope=scope, runs=RUNS) for scope in ("plan", "project")]
FUNCTIONS = "".join([OUTSIDE, FOLDERS, *HOLDERS, CLAIM])
BEFORE = import_module("ledger.migrations.0050_not_before").FUNCTIONS
RESTORE = (
    BEFORE
    + """drop function ledger_find_files_holder, ledger_files_holder_in_plan,
    ledger_files_holder_in_project, ledger_files_outside, ledger_wanted_folders,
    ledger_held_folders, ledger_file_folders"""
)


class Migration(BaseMigration):
    dependencies = [("ledger", "0056_task_pool")]

    operations = [
        AddField(
            "project",
            "exclusive_files",
            models.CharField(
                max_length=5,
                db_default="off",
                editable=False,
                choices=[("off", "Off"), ("plans", "Plans"), ("all", "All")],
                help_text="which tasks with the same files don't run at once",
            ),
        ),
        AddConstraint(
            "project",
            check("project_exclusive_files_known", "exclusive_files ~ '^(off|plans|all)$'"),
        ),
        AddField(
            "project",
            "marks_files_from",
            models.UUIDField(
                null=True,
                editable=False,
                help_text="the tasks from this id on are still to be told whose files count",
            ),
        ),
        AddField(
            "plan",
            "own_exclusive_files",
            models.BooleanField(
                null=True, help_text="exclusive_files if it was set; null: as its project says"
            ),
        ),
        RunSQL(OWN, RunSQL.noop),
        AddField(
            "task",
            "held_folders",
            ArrayField(
                models.TextField(),
                null=True,
                editable=False,
                help_text="of its files when it was last claimed, see ledger_held_folders",
            ),
        ),
        RunSQL(FUNCTIONS, RESTORE),
    ]
