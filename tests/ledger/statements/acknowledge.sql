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
    ), moved as (update ledger_instruction i
    set state = 'acknowledged', acknowledged_at = %(now)s, outcome = %(outcome)s, note = %(note)s,
        acknowledged_by = jsonb_build_object('actor', c.actor_type, 'name', c.actor_name), unread =
        false,
    read_at = case when i.delivered_at is null then i.read_at else coalesce(i.read_at, %(now)s)
        end, updated_at = %(now)s
    from caller c where i.id = any(array(select unnest(%(ids)s::uuid[]))) and i.agent_id =
        c.agent_id and i.tracked and i.state in ('queued', 'delivered')
    returning i.id, i.project_id, i.agent_id, i.content, i.tracked, i.state, i.retry_count,
        i.max_retries, i.deliveries, i.expect_type, i.expect_match, i.on_failed, i.task_id,
        i.resend_of_id, i.rule_id, i.holds, i.sent_by_type, i.sent_by_name, i.acknowledged_by,
        i.outcome, i.note, i.queued_at, i.first_delivered_at, i.delivered_at, i.delivered_via,
        i.delivered_to, i.delivered_call, i.read_at, i.acknowledged_at, i.failed_at, i.cancelled_at,
        i.late_ack_at, i.updated_at, i.position, old.state as from_state), journaled as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, %(kind)s, 'instruction', m.id, m.agent_id, m.from_state,
        m.state, c.actor_type, c.actor_id, c.actor_name, jsonb_build_object('retry_count',
            m.retry_count, 'outcome', m.outcome), %(request_id)s
    from moved m, caller c)
    select m.*, c.agent_name, case when m.id is null then c.unheard else c.unseen end as unseen from
        caller c left join moved m on true
    where c.agent_id is not null
