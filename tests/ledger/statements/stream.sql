select id, e.tx::text as tx, at, project_id, kind, subject_type, subject_id, agent_id,
    from_state, to_state, actor_type, actor_id, actor_name, data, request_id
from ledger_event e
where tx < ledger_stream_number(pg_snapshot_xmin(pg_current_snapshot())) and (tx, id) >
    (%(tx)s::text::xid8, %(id)s::uuid)
    and id >= ledger_event_floor(least(coalesce(uuid_extract_timestamp(%(id)s::uuid), timestamptz
        '1970-01-01 00:00+00'), now()), interval '31 days')
    and (%(project)s::uuid is null or project_id = %(project)s)
order by e.tx, e.id limit %(limit)s
