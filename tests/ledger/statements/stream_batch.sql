select tx::text as tx, id::text as id from (
    select tx, id from ledger_event
    where tx < ledger_stream_number(pg_snapshot_xmin(pg_current_snapshot())) and (tx, id) >
        (%(tx)s::text::xid8, %(id)s::uuid)
        and id >= ledger_event_floor(least(coalesce(uuid_extract_timestamp(%(id)s::uuid),
            timestamptz '1970-01-01 00:00+00'), now()), interval '31 days')
    order by tx, id limit %(size)s
) batch order by tx desc, id desc limit 1
