with caller as not materialized (
        select %(project)s::uuid as project_id, %(agent)s::uuid as agent_id,
            %(agent_name)s::text as agent_name, %(actor_type)s::text as actor_type,
            %(actor_id)s::text as actor_id, %(actor_name)s::text as actor_name, false as unseen,
            false as unheard, 0 as idle_s
    ), asked as materialized (
    -- in the order of the request: the ids are the order of the queue
    select uuidv7() as id, s.agent_id, s.pool_id, s.retry_on, s.plan_id, s.ref, s.run, s.title,
        s.type, s.priority, s.payload, s.redactions, s.max_attempts, s.on_exhausted, s.evidence,
        s.base_delay_ms, s.max_delay_ms, s.exponential_base, s.jitter, s.lease_s, s.timeout_s,
        s.idempotent, s.non_retryable, s.not_before, s.replay_of_id from
        jsonb_to_record(%(shared)s::jsonb) as s(agent_id uuid, pool_id uuid, retry_on text, plan_id
        uuid, ref text, run int, title text, type text, priority int, payload jsonb, redactions
        jsonb, max_attempts int, on_exhausted text, evidence text, base_delay_ms int, max_delay_ms
        int, exponential_base float8, jitter bool, lease_s int, timeout_s int, idempotent bool,
        non_retryable bool, not_before timestamptz, replay_of_id uuid)
), created as (
    insert into ledger_task as t (id, project_id, agent_id, pool_id, retry_on, plan_id, ref, run,
        title, type, priority, payload, redactions, max_attempts, on_exhausted, evidence,
        base_delay_ms, max_delay_ms, exponential_base, jitter, lease_s, timeout_s, idempotent,
        non_retryable, not_before, replay_of_id, attempt_limit, unmet,
        needed_by, exclusive, state, blocked_reason, created_by_type, created_by_name, created_at,
        updated_at)
    select a.id, c.project_id, a.agent_id, a.pool_id, a.retry_on, a.plan_id, a.ref, a.run, a.title,
        a.type, a.priority, a.payload, a.redactions, a.max_attempts, a.on_exhausted, a.evidence,
        a.base_delay_ms, a.max_delay_ms, a.exponential_base, a.jitter, a.lease_s, a.timeout_s,
        a.idempotent, a.non_retryable, a.not_before, a.replay_of_id, a.max_attempts, 0,
        0, case when a.plan_id is null then
            (select p.exclusive_files = 'all' from ledger_project p
                where p.id = c.project_id)
            else (select p.exclusive_files from ledger_plan p where p.id = a.plan_id) end,
        case when 0 > 0 then 'blocked' else case when a.plan_id is not null and a.type like
            'checkpoint:%%' then 'escalated' when a.not_before > %(now)s then 'blocked' else
            'queued' end end,
        case when 0 > 0 then 'dependency' else case when a.not_before > %(now)s and (a.plan_id is
            not null and a.type like 'checkpoint:%%') is not true then 'not_before' end end,
        c.actor_type, c.actor_name, %(now)s, %(now)s
    from asked a, caller c order by a.id
    returning t.id, t.project_id, t.agent_id, t.state, t.blocked_reason, t.exclusive, t.unmet,
        null as from_state
), journaled as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select m.id, %(now)s, m.project_id, 'task.created', 'task', m.id, m.agent_id, m.from_state,
        m.state, c.actor_type, c.actor_id, c.actor_name, case when m.blocked_reason = 'not_before'
        then jsonb_build_object('reason', m.blocked_reason) else '{}'::jsonb end, %(request_id)s
    from created m, caller c) select id, state, blocked_reason, exclusive
    from created order by id
