select tx::text, id::text from ledger_event where tx <
    ledger_stream_number(pg_snapshot_xmin(pg_current_snapshot())) and ledger_event.id >=
    ledger_event_floor(now(), interval '31 days')
    order by ledger_event.tx desc, ledger_event.id desc limit 1
