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
    ), live as materialized (
        select a.task_id from ledger_attempt a, caller c
        where a.id = %(attempt)s and a.ended_at is null and a.agent_id = c.agent_id
    ), moved as (update ledger_task t
    set state = 'done', blocked_reason = null, error = null, current_attempt = null, completed_at =
        %(now)s, result = %(result)s, proof = coalesce(
    %(proofs)s::jsonb ->> (coalesce(t.payload -> 'verify' ->> 'expect_exit', '0') || ' ' ||
        coalesce(nullif(regexp_replace(btrim(t.payload -> 'verify' ->> 'command', E' \n\t\r'),
        '\s+', ' ', 'g'), ''), 'proposed  check')),
    case when regexp_replace(btrim(t.payload -> 'verify' ->> 'command', E' \n\t\r'), '\s+', ' ',
        'g') <> '' then %(proofs)s::jsonb ->> (coalesce(t.payload -> 'verify' ->> 'expect_exit',
        '0') || ' ') end,
    'claimed'),
        version = t.version + 1, updated_at = %(now)s
    from caller c where t.id = (select task_id from live) and t.current_attempt = %(attempt)s
            and t.abort_requested_at is null
            and (%(exit)s::int is null and not coalesce((t.payload -> 'verify' ->>
                'required')::bool, false) or %(exit)s = coalesce((t.payload -> 'verify' ->>
                'expect_exit')::int, 0))
            and coalesce(t.evidence,
    (select p.evidence from ledger_plan p where p.id = t.plan_id),
    (select r.evidence from retries_retrypolicy r where r.project_id = t.project_id)) is distinct
        from 'require'
            and t.needed_by = 0
            and (%(paths)s::text[] is null
                or ledger_files_outside(t.payload -> 'files', %(paths)s) = '{}')
            and (%(usage)s::jsonb is null or %(counted)s or (
                (select true from ledger_budget b where b.task_id = t.id limit 1) is null
                and (select true from ledger_budget b where b.plan_id = t.plan_id limit 1) is null
                and (select true from ledger_budget b where b.project_id = t.project_id
                    and b.plan_id is null and b.task_id is null limit 1) is null))
            and (select b.agent_id from ledger_breaker b where b.agent_id = t.agent_id
                and (b.state <> 'closed' or b.failures > 0)) is null and t.state in ('queued',
                    'running', 'retry', 'blocked', 'escalated')
    returning t.id, t.project_id, t.agent_id, t.state, t.attempts, t.version, t.proof, t.plan_id,
        old.state as from_state,
        old.current_attempt as former_attempt), closed as (
        update ledger_attempt a set outcome = 'success', ended_at = greatest(%(now)s, a.started_at),
            report_digest = %(report_digest)s, decision = %(decision)s,
            usage = coalesce(%(usage)s, a.usage),
            checks = %(checks)s, tree = %(tree)s
        where a.id = (select former_attempt from moved) returning old.usage
    ), journaled as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, 'task.completed', 'task', m.id, m.agent_id,
        m.from_state,
        m.state, c.actor_type, c.actor_id, c.actor_name, jsonb_build_object('attempt', m.attempts,
            'proof', m.proof), %(request_id)s
    from moved m, caller c)
    select m.id, m.version, m.project_id, m.agent_id, m.plan_id, c.agent_id as caller_agent,
        c.actor_type, c.actor_id, c.actor_name, case when m.id is null then c.unheard else c.unseen
            end as unseen,
        (select usage from closed) as usage_before,
        %(usage)s::jsonb is not null and (m.id is null or %(counted)s) and exists (
            select from ledger_task t
            where t.id = (select task_id from live) and not (
                (select true from ledger_budget b where b.task_id = t.id limit 1) is null
                and (select true from ledger_budget b where b.plan_id = t.plan_id limit 1) is null
                and (select true from ledger_budget b where b.project_id = t.project_id
                    and b.plan_id is null and b.task_id is null limit 1) is null)) as is_counted
    from caller c left join moved m on true
