with caller as materialized (
        select t.id as token_id, t.project_id, t.agent_id, a.name as agent_name,
            'token' as actor_type, t.id::text as actor_id, t.name as actor_name,
            (coalesce(t.last_used_at < %(now)s - interval '1 minute', true)
                or coalesce(a.last_worked_at, '-infinity') < %(now)s - interval '5 seconds'
                    and a.id is not null) as unseen, (coalesce(t.last_used_at < %(now)s - interval
                        '1 minute', true)
                or coalesce(a.last_seen_at, '-infinity') < %(now)s - interval '5 seconds'
                    and a.id is not null) as unheard,
            extract(epoch from %(now)s - greatest(t.created_at, a.last_worked_at))::int as idle_s
        from ledger_token t left join ledger_agent a on a.id = t.agent_id
        where t.digest = %(digest)s and t.revoked_at is null
            and (t.expires_at is null or t.expires_at > %(now)s)
            and (%(scope)s = '' or %(scope)s = any(t.scopes))
    ), held as (
        update ledger_attempt a set heartbeat_at = %(now)s,
            lease_expires_at = greatest(a.lease_expires_at,
                %(now)s + coalesce(%(lease)s, a.lease_s) * interval '1 second')
        where a.agent_id = (select agent_id from caller) and a.outcome is null
            and a.deadline_at > %(now)s and a.worker_id = %(worker)s
            and (%(task)s::uuid is null or a.task_id = %(task)s)
        returning a.*
    ), moved as (update ledger_task t
    set state = 'running', blocked_reason = null, started_at = coalesce(t.started_at, %(now)s),
        due_at = null, due_noted_at = null, attempts = t.attempts + 1, current_attempt = uuidv7(),
        held_folders = case when t.exclusive
            then ledger_held_folders(t.payload -> 'files') end,
        version = t.version + 1, updated_at = %(now)s
    from ledger_agent a where a.id = (select agent_id from caller) and not a.paused and not
        a.in_pools and not exists (select from held)
            and (a.waits_until is null or a.waits_until <= %(now)s)
            and (%(limited)s or a.concurrency is null) and (select (p.spent_until is null or
                p.spent_until <= %(now)s)
                    and (p.paused_types is null or coalesce(%(held_types)s::text[]
                        @> array(select jsonb_object_keys(p.paused_types)), false))
                from ledger_project p where p.id = a.project_id)
            and (%(ruled)s or (select true from ledger_standinginstruction r
            where r.project_id = a.project_id and (r.agent_id is null or r.agent_id = a.id)
                and r.event = 'task_claimed' and not r.paused limit 1) is null) and (%(probe)s or
                    (select b.state from ledger_breaker b
                where b.agent_id = a.id and b.state <> 'closed') is null) and t.id = (with due as
                    materialized (select id, priority from ledger_task where agent_id = (select
                    agent_id from caller) and state = 'retry' and due_at <= %(now)s and
                    (ledger_task.not_before is null or ledger_task.not_before <= %(now)s)
                and (ledger_task.spent_until is null or ledger_task.spent_until <= %(now)s)
                and (ledger_task.type = any(%(held_types)s::text[])) is not true
                and (plan_id is null or (
                select p.paused_at is null and (p.not_before is null or p.not_before <= %(now)s)
                    and (p.spent_until is null or p.spent_until <= %(now)s)
                from ledger_plan p where p.id = plan_id)) and (not ledger_task.exclusive or
                    ledger_take_files(ledger_task.project_id,
                ledger_task.id, ledger_task.plan_id, ledger_task.agent_id, ledger_task.state,
                    ledger_task.priority,
                ledger_task.payload -> 'files'))
            order by due_at limit 1 for update skip locked),
                head as materialized (select id, priority from ledger_task where agent_id = (select
                    agent_id from caller) and state = 'queued' and (ledger_task.not_before is null
                    or ledger_task.not_before <= %(now)s)
                and (ledger_task.spent_until is null or ledger_task.spent_until <= %(now)s)
                and (ledger_task.type = any(%(held_types)s::text[])) is not true
                and (plan_id is null or (
                select p.paused_at is null and (p.not_before is null or p.not_before <= %(now)s)
                    and (p.spent_until is null or p.spent_until <= %(now)s)
                from ledger_plan p where p.id = plan_id)) and (not ledger_task.exclusive or
                    ledger_take_files(ledger_task.project_id,
                ledger_task.id, ledger_task.plan_id, ledger_task.agent_id, ledger_task.state,
                    ledger_task.priority,
                ledger_task.payload -> 'files'))
            order by priority desc, id limit 1 for update skip locked)
            select coalesce((select id from due
                where due.priority >= coalesce((select priority from head), due.priority)),
                (select id from head))) and t.state in ('queued', 'retry')
    returning t.id, t.project_id, t.agent_id, t.pool_id, t.retry_on, t.plan_id, t.ref, t.run,
        t.title, t.type, t.state, t.blocked_reason, t.priority, t.payload, t.result, t.error,
        t.proof, t.retry_count, t.max_attempts, t.attempt_limit, t.attempts, t.releases, t.unmet,
        t.on_exhausted, t.evidence, t.base_delay_ms, t.max_delay_ms, t.exponential_base, t.jitter,
        t.lease_s, t.timeout_s, t.idempotent, t.non_retryable, t.redactions, t.due_at, t.not_before,
        t.exclusive, t.current_attempt, t.abort_requested_at, t.replay_of_id, t.replaced_by_id,
        t.version, t.created_at, t.updated_at, t.started_at, t.completed_at, old.state as
        from_state,
        old.current_attempt as former_attempt, case when t.attempts > 1 then greatest(%(now)s,
            old.updated_at, (
        select p.ended_at from ledger_attempt p
        where p.task_id = t.id and p.number = t.attempts - 1)) else %(now)s::timestamptz end as
            attempt_started_at), opened as (
        insert into ledger_attempt (task_id, agent_id, id, number, worker_id, started_at, lease_s,
            lease_expires_at, deadline_at)
        select m.id, m.agent_id, m.current_attempt, m.attempts, %(worker)s::text,
            m.attempt_started_at, coalesce(%(lease)s, m.lease_s), %(now)s + coalesce(%(lease)s,
            m.lease_s) * interval '1 second', %(now)s + m.timeout_s * interval '1 second' from moved
            m
    ), journaled as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select m.current_attempt, %(now)s, m.project_id, 'task.claimed', 'task', m.id, m.agent_id,
        m.from_state,
        m.state, c.actor_type, c.actor_id, c.actor_name, jsonb_build_object('attempt', m.attempts),
            %(request_id)s
    from moved m, caller c)
    select m.id, m.project_id, m.agent_id, m.pool_id, m.retry_on, m.plan_id, m.ref, m.run, m.title,
        m.type, m.state, m.blocked_reason, m.priority, m.payload, m.result, m.error, m.proof,
        m.retry_count, m.max_attempts, m.attempt_limit, m.attempts, m.releases, m.unmet,
        m.on_exhausted, m.evidence, m.base_delay_ms, m.max_delay_ms, m.exponential_base, m.jitter,
        m.lease_s, m.timeout_s, m.idempotent, m.non_retryable, m.redactions, m.due_at, m.not_before,
        m.exclusive, m.current_attempt, m.abort_requested_at, m.replay_of_id, m.replaced_by_id,
        m.version, m.created_at, m.updated_at, m.started_at, m.completed_at, array(select n.need_id
        from ledger_need n where n.task_id = m.id
            order by n.need_id) as need_ids, m.current_attempt as attempt_id, m.attempts as
                attempt_number, %(worker)s::text as attempt_worker_id, m.attempt_started_at as
                attempt_started_at, coalesce(%(lease)s, m.lease_s) as attempt_lease_s, %(now)s +
                coalesce(%(lease)s, m.lease_s) * interval '1 second' as attempt_lease_expires_at,
                %(now)s + m.timeout_s * interval '1 second' as attempt_deadline_at, false as
                resumed, c.agent_name, c.unseen,
        (select count(*) from (select from ledger_instruction i
            where i.agent_id = c.agent_id and i.state = 'queued' limit 100) i) as
                pending_instructions,
        (select a.system_text from ledger_agent a where a.id = c.agent_id) as system_text
    from moved m, caller c union all
    select t.id, t.project_id, t.agent_id, t.pool_id, t.retry_on, t.plan_id, t.ref, t.run, t.title,
        t.type, t.state, t.blocked_reason, t.priority, t.payload, t.result, t.error, t.proof,
        t.retry_count, t.max_attempts, t.attempt_limit, t.attempts, t.releases, t.unmet,
        t.on_exhausted, t.evidence, t.base_delay_ms, t.max_delay_ms, t.exponential_base, t.jitter,
        t.lease_s, t.timeout_s, t.idempotent, t.non_retryable, t.redactions, t.due_at, t.not_before,
        t.exclusive, t.current_attempt, t.abort_requested_at, t.replay_of_id, t.replaced_by_id,
        t.version, t.created_at, t.updated_at, t.started_at, t.completed_at, array(select n.need_id
        from ledger_need n where n.task_id = t.id
            order by n.need_id) as need_ids, h.id as attempt_id, h.number as attempt_number,
                h.worker_id as attempt_worker_id, h.started_at as attempt_started_at, h.lease_s as
                attempt_lease_s, h.lease_expires_at as attempt_lease_expires_at, h.deadline_at as
                attempt_deadline_at, true as resumed, c.agent_name, c.unseen,
        (select count(*) from (select from ledger_instruction i
            where i.agent_id = c.agent_id and i.state = 'queued' limit 100) i) as
                pending_instructions,
        (select a.system_text from ledger_agent a where a.id = c.agent_id) as system_text
    from held h join ledger_task t on t.id = h.task_id, caller c
