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
    ), picked as materialized (
        select id from ledger_instruction
        where agent_id = (select agent_id from caller) and state = 'queued'
        -- behind a select for the same reason as IDS
        order by position limit (select %(limit)s::int) for update skip locked
    ), moved as (update ledger_instruction i
    set state = 'delivered', delivered_at = %(now)s, deliveries = i.deliveries + 1, delivered_via =
        %(via)s, delivered_to = %(session)s, delivered_call = %(call)s,
    first_delivered_at = coalesce(i.first_delivered_at, %(now)s), unread = true,
    read_at = case when i.unread then coalesce(i.read_at, %(now)s) else i.read_at end, updated_at =
        %(now)s
    from caller c where i.id = any(array(select id from picked)) and i.state in ('queued')
    returning i.id, i.project_id, i.agent_id, i.content, i.tracked, i.state, i.retry_count,
        i.max_retries, i.deliveries, i.expect_type, i.expect_match, i.on_failed, i.task_id,
        i.resend_of_id, i.rule_id, i.holds, i.sent_by_type, i.sent_by_name, i.acknowledged_by,
        i.outcome, i.note, i.queued_at, i.first_delivered_at, i.delivered_at, i.delivered_via,
        i.delivered_to, i.delivered_call, i.read_at, i.acknowledged_at, i.failed_at, i.cancelled_at,
        i.late_ack_at, i.updated_at, i.position, old.state as from_state),
    journaled as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, 'instruction.delivered', 'instruction', m.id,
        m.agent_id, m.from_state,
        m.state, c.actor_type, c.actor_id, c.actor_name,
            jsonb_strip_nulls(jsonb_build_object('retry_count', m.retry_count,
    'via', m.delivered_via, 'session', m.delivered_to, 'call', m.delivered_call)), %(request_id)s
    from moved m, caller c),
    marked as (
        update ledger_instruction i
        set unread = false, read_at = coalesce(i.read_at, %(now)s), updated_at = %(now)s
        -- another call that holds a row moves it or marks it
        where i.id = any(array(select i.id from ledger_instruction i
            where i.agent_id = (select agent_id from caller) and i.unread and i.state = 'delivered'
                and i.delivered_at < %(began)s
    and (i.delivered_to is null or i.delivered_to = %(session)s) for update skip locked))
        returning i.id, i.project_id, i.agent_id, i.retry_count, i.delivered_to
    ), journaled_read as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, 'instruction.read', 'instruction', m.id, m.agent_id,
        null,
        null, c.actor_type, c.actor_id, c.actor_name,
            jsonb_strip_nulls(jsonb_build_object('retry_count', m.retry_count, 'session',
            m.delivered_to, 'call', %(call)s::int)), %(request_id)s
    from marked m, caller c)
    select m.*, c.agent_name, c.idle_s, case when m.id is null then c.unheard else c.unseen end as
        unseen
    from caller c left join moved m on true
    where c.agent_id is not null order by m.position
