with caller as not materialized (
        select %(project)s::uuid as project_id, %(agent)s::uuid as agent_id,
            %(agent_name)s::text as agent_name, %(actor_type)s::text as actor_type,
            %(actor_id)s::text as actor_id, %(actor_name)s::text as actor_name, false as unseen,
            false as unheard, 0 as idle_s
    ), sent as (
    insert into ledger_instruction as i (project_id, agent_id, content, content_sha256, tracked,
        state, max_retries, expect_type, expect_match, on_failed, task_id, position, resend_of_id,
        sent_by_type, sent_by_id, sent_by_name, queued_at, updated_at)
    select c.project_id, c.agent_id, %(content)s, %(sha256)s, %(tracked)s,
        'queued', %(max_retries)s, %(expect_type)s, %(expect_match)s,
        %(on_failed)s, %(task)s::uuid,
        nextval('ledger_instruction_position') * %(sign)s, %(resend_of)s::uuid,
        c.actor_type, c.actor_id, c.actor_name, %(now)s, %(now)s
    from caller c
    -- locks the row that it finds; if an ack commits meanwhile, this becomes an insert after all
    on conflict (agent_id, content_sha256) where tracked and state in ('queued', 'delivered')
        do update set content = i.content
    returning i.id, i.project_id, i.agent_id, i.content, i.tracked, i.state, i.retry_count,
        i.max_retries, i.deliveries, i.expect_type, i.expect_match, i.on_failed, i.task_id,
        i.resend_of_id, i.rule_id, i.holds, i.sent_by_type, i.sent_by_name, i.acknowledged_by,
        i.outcome, i.note, i.queued_at, i.first_delivered_at, i.delivered_at, i.delivered_via,
        i.delivered_to, i.delivered_call, i.read_at, i.acknowledged_at, i.failed_at, i.cancelled_at,
        i.late_ack_at, i.updated_at, null as from_state,
        old.id is not null as deduplicated
), fresh as (select * from sent where not deduplicated
), journaled as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, 'instruction.queued', 'instruction', m.id, m.agent_id,
        m.from_state,
        m.state, c.actor_type, c.actor_id, c.actor_name, '{}'::jsonb, %(request_id)s
    from fresh m, caller c)
select sent.*, c.agent_name from sent, caller c
