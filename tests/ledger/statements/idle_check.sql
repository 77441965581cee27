with caller as not materialized (
        select %(project)s::uuid as project_id, %(agent)s::uuid as agent_id,
            %(agent_name)s::text as agent_name, %(actor_type)s::text as actor_type,
            %(actor_id)s::text as actor_id, %(actor_name)s::text as actor_name, false as unseen,
            false as unheard, 0 as idle_s
    ), ripe as materialized (
    select i.id, i.retry_count >= i.max_retries as spent from ledger_instruction i
    where i.agent_id = any(array(
            select a from unnest(%(agents)s::uuid[]) a where (select true from ledger_instruction q
    where q.agent_id = a and q.state = 'queued' limit 1) is null))
        and i.state = 'delivered' and i.tracked and i.delivered_at <= %(before)s
    order by i.id for update of i skip locked
), requeued as (update ledger_instruction i
    set state = 'queued', retry_count = i.retry_count + 1, updated_at = %(now)s
    from caller c where i.id = any(array(select id from ripe where not spent)) and i.state in
        ('delivered')
    returning i.id, i.project_id, i.agent_id, i.content, i.tracked, i.state, i.retry_count,
        i.max_retries, i.deliveries, i.expect_type, i.expect_match, i.on_failed, i.task_id,
        i.resend_of_id, i.rule_id, i.holds, i.sent_by_type, i.sent_by_name, i.acknowledged_by,
        i.outcome, i.note, i.queued_at, i.first_delivered_at, i.delivered_at, i.delivered_via,
        i.delivered_to, i.delivered_call, i.read_at, i.acknowledged_at, i.failed_at, i.cancelled_at,
        i.late_ack_at, i.updated_at, i.position, old.state as from_state), failed as (update
        ledger_instruction i
    set state = 'failed', failed_at = %(now)s, updated_at = %(now)s
    from caller c where i.id = any(array(select id from ripe where spent)) and i.state in
        ('delivered')
    returning i.id, i.project_id, i.agent_id, i.content, i.tracked, i.state, i.retry_count,
        i.max_retries, i.deliveries, i.expect_type, i.expect_match, i.on_failed, i.task_id,
        i.resend_of_id, i.rule_id, i.holds, i.sent_by_type, i.sent_by_name, i.acknowledged_by,
        i.outcome, i.note, i.queued_at, i.first_delivered_at, i.delivered_at, i.delivered_via,
        i.delivered_to, i.delivered_call, i.read_at, i.acknowledged_at, i.failed_at, i.cancelled_at,
        i.late_ack_at, i.updated_at, i.position, old.state as from_state),
journaled_requeued as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, 'instruction.requeued', 'instruction', m.id, m.agent_id,
        m.from_state,
        m.state, c.actor_type, c.actor_id, c.actor_name, jsonb_build_object('retry_count',
            m.retry_count), %(request_id)s
    from requeued m, caller c),
journaled_failed as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, 'instruction.failed', 'instruction', m.id, m.agent_id,
        m.from_state,
        m.state, c.actor_type, c.actor_id, c.actor_name, jsonb_build_object('retry_count',
            m.retry_count), %(request_id)s
    from failed m, caller c),
opened as (insert into retries_escalation (instruction_id, reason, project_id, agent_id, state,
    raised_by_type, raised_by_name, opened_at, updated_at, notify_again_at)
    select m.id, 'instruction_ignored', m.project_id, m.agent_id, 'open', c.actor_type,
        c.actor_name, %(now)s, %(now)s, %(now)s + interval '3600 seconds' from failed m, caller c
        where m.on_failed = 'escalate'
    returning id, project_id, agent_id, instruction_id, task_id, reason, state),
journaled_opened as (
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select uuidv7(), %(now)s, m.project_id, 'escalation.opened', 'escalation', m.id, m.agent_id,
        null,
        m.state, c.actor_type, c.actor_id, c.actor_name,
            jsonb_strip_nulls(jsonb_build_object('reason', m.reason, 'instruction',
            m.instruction_id, 'task', m.task_id)), %(request_id)s
    from opened m, caller c)
select (select count(*) from requeued) as requeued, f.id, f.max_retries,
    left(f.content, 50) as start
from (select) as one left join failed f on true
