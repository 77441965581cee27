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
    ), beat as (
        update ledger_attempt a set heartbeat_at = %(now)s, heartbeats = a.heartbeats + 1,
            progress = coalesce(%(progress)s, a.progress),
            last_output = coalesce(%(output)s, a.last_output), lease_expires_at = greatest(
                a.lease_expires_at,
                %(now)s + coalesce(%(extend)s, a.lease_s) * interval '1 second')
        from caller c where a.id = %(attempt)s and a.ended_at is null and a.agent_id = c.agent_id
            and a.deadline_at > %(now)s
        returning a.*
    )
    select b.id, b.agent_id, b.lease_expires_at, b.deadline_at, case when b.id is null then
        c.unheard else c.unseen end as unseen,
        s.abort_requested or s.is_spent as abort_requested,
        case when s.abort_requested then 'abort' when s.is_spent then 'budget_used' end
            as stop_reason,
        (select count(*) from (select from ledger_instruction i
            where i.agent_id = b.agent_id and i.state = 'queued' limit 100) i) as
                pending_instructions
    from caller c left join beat b on true left join lateral (
        select t.abort_requested_at is not null as abort_requested, coalesce(greatest(t.spent_until,
            (select p.spent_until from ledger_plan p where p.id = t.plan_id),
            (select r.spent_until from ledger_project r where r.id = t.project_id))
            > %(now)s, false) as is_spent
        from ledger_task t where t.id = b.task_id
    ) s on true
