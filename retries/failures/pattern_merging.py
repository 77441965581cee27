"""Insert patterns, and merge those whose templates are one.

Patterns of one shape are inserted one after the other, so that of two failures at the same time the
second one sees the template of the first. A pattern that a person has moved is never merged.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger import journal
from ledger.database import sql
from ledger.journal import Kind, Stamp
from ledger.tokens import TrustedCaller
from retries.failures.fingerprints import Identity
from retries.failures.template_merging import Merge, find_merge, measure_shape
from retries.states import PatternState

EXAMPLE_LENGTH = 400
# the patterns of a shape that a new template is compared with, the last seen
MOST_COMPARED = 200
ADVISORY_SPACE = 7_321

IS_UNTOUCHED = f"(state = '{PatternState.OPEN}' and state_at = first_seen and note = '')"
LOCK = """select pg_advisory_xact_lock(%(space)s, hashtext(%(of)s::text || '/' || %(shape)s))"""
CANDIDATES = f"""select id, template, own_template <> '' as is_general,
    {IS_UNTOUCHED} as is_untouched
from retries_failurepattern
where project_id = %(of)s and shape = %(shape)s and merged_into_id is null
    and (own_template <> '' or {IS_UNTOUCHED})
order by last_seen desc limit {MOST_COMPARED}"""
INSERT = """insert into retries_failurepattern (project_id, fingerprint, template, example,
    first_seen, last_seen, state_at, updated_at, shape, merged_into_id, merged_at)
values (%(of)s, %(fingerprint)s, %(template)s, %(example)s, %(now)s, %(now)s, %(now)s, %(now)s,
    %(shape)s, %(into)s, case when %(into)s::uuid is not null then %(now)s end)
on conflict (project_id, fingerprint) do nothing returning id"""
# A failure that joins one of these patterns now holds a lock on it, and is moved with the others.
HOLD = f"""select id, {IS_UNTOUCHED} as is_untouched from retries_failurepattern
where id = any(%(ids)s) and merged_into_id is null order by id for update"""
# A trigger moves the counts of the failures, also where a former version of this statement runs.
MERGE = f"""with {TrustedCaller.cte}, merged as (
    update retries_failurepattern set merged_into_id = %(into)s, merged_at = %(now)s,
        updated_at = %(now)s
    where id = any(%(ids)s)
), regrouped as (
    update retries_grouped set pattern_id = %(into)s where pattern_id = any(%(ids)s)
), counted as (
    insert into retries_pastfailures as c (pattern_id, agent_id, failures, last_at, retried, worked)
    select %(into)s::uuid, agent_id, sum(failures), max(last_at), sum(retried), sum(worked)
    from retries_pastfailures where pattern_id = any(%(ids)s) group by agent_id
    on conflict (pattern_id, agent_id) do update
    set failures = c.failures + excluded.failures, retried = c.retried + excluded.retried,
        worked = c.worked + excluded.worked, last_at = greatest(c.last_at, excluded.last_at)
), uncounted as (
    delete from retries_pastfailures where pattern_id = any(%(ids)s)
), tried as (
    update retries_pastfixtry set pattern_id = %(into)s where pattern_id = any(%(ids)s)
), kept as (
    update retries_failurepattern p set template = %(template)s, updated_at = %(now)s,
        own_template = case p.own_template when '' then p.template else p.own_template end,
        last_seen = greatest(p.last_seen, %(now)s)
    where p.id = %(into)s
    returning p.id, p.project_id, p.state
), events as ({
    journal.insert_without_states(
        "kept",
        kind=f"'{Kind.PATTERN_MERGED}'",
        subject="pattern",
        agent="null::uuid",
        data="jsonb_build_object('patterns', %(ids)s::uuid[], 'template', %(template)s::text)",
    )
}) select id from kept"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pattern that a new template may be merged with."""

    id: UUID
    template: str
    is_general: bool
    is_untouched: bool


def insert_pattern(identity: Identity, *, project_id: UUID, stamp: Stamp) -> None:
    """Insert a template's pattern, and merge it with the patterns that it shows to be one.

    Run it in a transaction, which holds back other templates of this shape until it ends.
    """
    shape = measure_shape(identity.template)
    params: dict[str, Any] = {
        "of": project_id,
        "fingerprint": identity.fingerprint,
        "template": identity.template,
        "example": identity.headline[:EXAMPLE_LENGTH],
        "shape": shape,
        "now": stamp.at,
    }
    if not shape:
        sql.run(INSERT, into=None, **params)
        return
    sql.run(LOCK, space=ADVISORY_SPACE, of=project_id, shape=shape)
    known = [Candidate(**row) for row in sql.run(CANDIDATES, of=project_id, shape=shape)]
    root = find_general(identity, known)
    inserted = sql.run(INSERT, into=root.id if root else None, **params)
    if inserted and not root:
        merge_patterns(identity, inserted[0]["id"], known, stamp=stamp)


def find_general(identity: Identity, known: list[Candidate]) -> Candidate | None:
    """Return the known pattern whose general template covers the new one."""
    # A person who moved that pattern has seen its template, so the new one belongs to it, too.
    for each in known:
        if each.is_general:
            merge = find_merge(identity.template, [each.template], fixed=identity.test.split())
            if merge and merge.template == each.template:
                return each
    return None


def merge_patterns(identity: Identity, new: UUID, known: list[Candidate], *, stamp: Stamp) -> None:
    others = [each for each in known if each.is_untouched]
    templates = [each.template for each in others]
    merge = find_merge(identity.template, templates, fixed=identity.test.split())
    if not merge:
        return
    members = choose_members(merge, others)
    held = sql.run(HOLD, ids=[each.id for each in members])
    if len(held) < len(members) or not all(row["is_untouched"] for row in held):
        return  # a person has moved one in the meantime; the next template tries again
    root, *rest = members
    caller = TrustedCaller(stamp.actor, request_id=stamp.request_id)
    sql.run(
        MERGE,
        into=root.id,
        ids=[*(each.id for each in rest), new],
        template=merge.template,
        now=stamp.at,
        **caller.params,
    )


def choose_members(merge: Merge, others: list[Candidate]) -> list[Candidate]:
    """Return the patterns to merge; the first, a general one or else the oldest, stays."""
    # Of several general patterns one is merged: each keeps what was merged into it.
    found = sorted(
        (others[number] for number in merge.numbers),
        key=lambda each: (not each.is_general, each.id),
    )
    root, *rest = found
    return [root, *(each for each in rest if not each.is_general)]
