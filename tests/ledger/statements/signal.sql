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
    ), waits as materialized (
        select (select true from ledger_standinginstruction r, caller c
            where r.project_id = c.project_id and (r.agent_id is null or r.agent_id = c.agent_id or
                exists (
                select from ledger_poolmember s
                where s.agent_id = c.agent_id and s.pool_id = r.agent_id)) and r.signal_type =
                    %(type)s and not r.paused limit 1) as rule
    ), matched as materialized (
        -- in id order, and without SKIP LOCKED: a concurrent pull must not hide an instruction
        select i.id from ledger_instruction i
        where i.agent_id = (select agent_id from caller) and i.tracked
            and i.state in ('queued', 'delivered') and i.expect_type = %(type)s
            and (%(data)s::jsonb @> i.expect_match
                or %(data)s::jsonb || %(normalized)s::jsonb @> i.expect_match)
            and (%(ruled)s or (select rule from waits) is null)
            -- what the agent did can't follow an instruction that was sent later
            and i.id <= (select %(last)s::uuid)
        order by i.id for update
    ), matching as materialized (
        select uuidv7() as id, agent_id, project_id from caller where exists (select from matched)
    ), moved as (update ledger_instruction i
    set state = 'acknowledged', acknowledged_at = %(now)s, outcome = 'done', acknowledged_by =
        jsonb_build_object('signal', (select id from matching), 'type', %(type)s::text, 'data',
        coalesce(%(masked)s::jsonb, %(data)s::jsonb)), unread = false,
    read_at = case when i.delivered_at is null then i.read_at else coalesce(i.read_at, %(now)s)
        end, updated_at = %(now)s
    from caller c where i.id = any(array(select id from matched)) and i.state in ('queued',
        'delivered')
    returning i.id, i.project_id, i.agent_id, i.content, i.tracked, i.state, i.retry_count,
        i.max_retries, i.deliveries, i.expect_type, i.expect_match, i.on_failed, i.task_id,
        i.resend_of_id, i.rule_id, i.holds, i.sent_by_type, i.sent_by_name, i.acknowledged_by,
        i.outcome, i.note, i.queued_at, i.first_delivered_at, i.delivered_at, i.delivered_via,
        i.delivered_to, i.delivered_call, i.read_at, i.acknowledged_at, i.failed_at, i.cancelled_at,
        i.late_ack_at, i.updated_at, i.position, old.state as from_state),
    journaled_signal as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, 'signal.matched', 'agent', m.agent_id, m.agent_id, null,
        null, c.actor_type, c.actor_id, c.actor_name, jsonb_build_object('signal', m.id, 'type',
            %(type)s::text, 'data', coalesce(%(masked)s::jsonb, %(data)s::jsonb)), %(request_id)s
    from matching m, caller c),
    journaled as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, 'instruction.acknowledged', 'instruction', m.id,
        m.agent_id, m.from_state,
        m.state, c.actor_type, c.actor_id, c.actor_name,
            jsonb_strip_nulls(jsonb_build_object('retry_count', m.retry_count, 'signal',
            m.acknowledged_by->'signal', 'type', %(type)s::text, 'call', %(call)s::int)),
            %(request_id)s
    from moved m, caller c)
    select m.id, case when m.id is null then c.unheard else c.unseen end as unseen, (select rule
        from waits) as rule
    from caller c left join moved m on true
    where c.agent_id is not null order by m.id
