"""Group each failure into its pattern, and move patterns between their states.

With `retries.failures.pattern_merging` the only writer of `FailurePattern` and `Grouped`.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger import journal
from ledger.database import sql
from ledger.journal import Kind, Stamp
from ledger.models import Failure
from ledger.secrets.notes import clean_note
from ledger.states import Who
from ledger.tokens import TrustedCaller
from retries.failures import known_errors, pattern_merging
from retries.failures.known_errors import Match
from retries.failures.outputs.salience import find_headline, split_at_cause
from retries.failures.signatures import sign
from retries.states import PATTERN_MOVES, PatternState, allowed_pattern_moves, pattern_sources

NOTE_LENGTH = 2000

# ---- a new failure

# the one state that a new failure moves a pattern to, by the state it leaves
RETURNS = {state: to for state in PATTERN_MOVES for to in allowed_pattern_moves(state, Who.AGENT)}
RETURN_KINDS = {
    PatternState.REGRESSED: Kind.PATTERN_REGRESSED,
    PatternState.OPEN: Kind.PATTERN_REOPENED,
}
RETURNED_STATE = " ".join(f"when '{state}' then '{to}'" for state, to in RETURNS.items())
RETURN_KIND = " ".join(f"when '{to}' then '{kind}'" for to, kind in RETURN_KINDS.items())
# only a pattern that is ignored for some time has a time; null never comes
DOES_RETURN = f"""(p.state in ({", ".join(f"'{state}'" for state in RETURNS)})
            and (p.state <> '{PatternState.IGNORED}' or p.ignored_until <= %(now)s))"""

# Most patterns exist already, and then the row is only read: if every failure wrote to it, all
# agents that fail at once would wait for each other. So `last_seen` moves at most once a minute.
# The lock waits for a merge of the pattern, and costs nothing: a reference takes the same one.
JOIN = f"""with {TrustedCaller.cte}, found as (
    select coalesce(merged_into_id, id) as id from retries_failurepattern
    where project_id = %(of)s and fingerprint = %(fingerprint)s for key share
), grouped as (
    insert into retries_grouped
        (failure_id, pattern_id, agent_id, at, signature, entities, files_changed, known_error)
    select %(failure)s, id, %(whose)s, %(now)s, %(signature)s, %(entities)s, %(files_changed)s,
        %(known_error)s
    from found
), seen as (
    update retries_failurepattern p
    set state = case when {DOES_RETURN} then case p.state {RETURNED_STATE} end else p.state end,
        state_at = case when {DOES_RETURN} then %(now)s else p.state_at end,
        state_by_name = case when {DOES_RETURN} then '' else p.state_by_name end,
        ignored_until = case when p.ignored_until > %(now)s then p.ignored_until end,
        last_seen = greatest(p.last_seen, %(now)s), updated_at = %(now)s
    from found f
    where p.id = f.id and (p.last_seen <= %(now)s - interval '1 minute' or {DOES_RETURN})
    returning p.id, p.project_id, p.state, old.state as from_state
), moved as (
    select s.*, case s.state {RETURN_KIND} end as kind from seen s where s.state <> s.from_state
), events as ({
    journal.insert(
        "moved",
        kind="m.kind",
        subject="pattern",
        agent="%(whose)s",
        data="jsonb_build_object('failure', %(failure)s::uuid, 'task', %(task)s::uuid)",
    )
}) select id from found"""


def headline_of(failure: Failure) -> str:
    stored = (failure.telling_lines or "").partition("\n")[0]
    return stored or str(find_headline(*failure.texts))


def split_at_headline(text: str, failure: Failure) -> tuple[str, str, str]:
    return split_at_cause(text, find_headline(*failure.texts))


def find_known_error(failure: Failure) -> Match | None:
    code = (failure.verification or {}).get("exit_code")
    return known_errors.find(*failure.texts, exit_code=code if isinstance(code, int) else None)


def join(
    failure: Failure,
    *,
    project_id: UUID,
    agent_id: UUID,
    files_changed: int | None = None,
    stamp: Stamp,
) -> UUID:
    """Add a new failure to its pattern, with its signature; return the pattern's id.

    A resolved pattern becomes regressed; an ignored one whose time is over becomes open.
    `files_changed` is None if it is unknown whether the attempt changed files.
    """
    signature = sign(*failure.texts)
    found, known_error = signature.identity, find_known_error(failure)
    known = TrustedCaller(stamp.actor, request_id=stamp.request_id)
    for _ in range(2):
        rows = sql.run(
            JOIN,
            failure=failure.pk,
            task=failure.task_id,
            of=project_id,
            whose=agent_id,
            fingerprint=found.fingerprint,
            signature=signature.key,
            entities=Jsonb(list(signature.entities)),
            files_changed=files_changed,
            known_error=known_error.error.name if known_error else "",
            now=stamp.at,
            **known.params,
        )
        if rows:
            break
        pattern_merging.insert_pattern(found, project_id=project_id, stamp=stamp)
    id: UUID = rows[0]["id"]
    return id


# ---- moves by people


def move_statement(to: PatternState, kind: Kind) -> str:
    sources = ", ".join(f"'{state}'" for state in pattern_sources(to, Who.PERSON))
    return f"""with {TrustedCaller.cte}, moved as (
        update retries_failurepattern p
        set state = '{to}', ignored_until = %(until)s, note = %(note)s, state_at = %(now)s,
            state_by_name = c.actor_name, updated_at = %(now)s
        from caller c
        where p.state in ({sources}) and p.merged_into_id is null and p.id = any(array(
            select id from retries_failurepattern where id = any(%(ids)s) order by id for update))
        returning p.id, p.project_id, p.state, p.ignored_until, old.state as from_state
    ), events as ({
        journal.insert(
            "moved",
            kind=f"'{kind}'",
            subject="pattern",
            agent="null::uuid",
            data="jsonb_strip_nulls(jsonb_build_object('until', m.ignored_until, "
            "'note', nullif(%(note)s, '')))",
        )
    }) select id from moved"""


MOVES = {
    PatternState.IGNORED: move_statement(PatternState.IGNORED, Kind.PATTERN_IGNORED),
    PatternState.RESOLVED: move_statement(PatternState.RESOLVED, Kind.PATTERN_RESOLVED),
    PatternState.OPEN: move_statement(PatternState.OPEN, Kind.PATTERN_REOPENED),
}


def move(
    to: PatternState,
    ids: Iterable[UUID],
    *,
    until: datetime | None = None,
    note: str = "",
    stamp: Stamp,
) -> list[UUID]:
    rows = sql.run(
        MOVES[to],
        ids=list(ids),
        until=until,
        note=clean_note(note),
        now=stamp.at,
        **TrustedCaller(stamp.actor, request_id=stamp.request_id).params,
    )
    return [row["id"] for row in rows]
