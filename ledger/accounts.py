"""Accounts that agents' calls are billed to, with the limits of their windows.

Facts about the windows come from agents' own records and messages. While a window is at its limit,
the agents of the account wait until it resets.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from psycopg.types.json import Jsonb

from ledger import agents, journal, tokens
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import AccountWindow, Agent, Token
from ledger.models.agent import ACCOUNT_LENGTH
from ledger.secrets.redaction import redacted
from ledger.states import Outcome, TaskState
from ledger.tokens import Bearer, Caller, TrustedCaller
from ledger.values.account_windows import (
    LimitSource,
    LimitWindow,
    WindowFact,
    latest_wait,
    newest_facts,
)
from ledger.values.timestamps import format_timestamp

MOST_DISTANCE = timedelta(days=366)
# Codex rounds a reset in each record, and messages to the minute: such resets are the same one.
SAME_RESET = timedelta(seconds=90)
# the longest time to the reset of a window, by clocks that may differ
MOST_FIVE_HOURS = timedelta(hours=5, minutes=10)
# All changes of an account's windows and waits follow each other. The locks are taken in one order.
LOCK = """select pg_advisory_xact_lock(k.id) from (
    select distinct hashtextextended('tenfour.account/' || n.project || '/' || n.account, 0) as id
    from unnest(%(projects)s::uuid[], %(accounts)s::text[]) n(project, account) order by 1
) k"""
# A fact that is no newer than the stored one changes nothing, so a record can be read again. If the
# stored time is still to come, the database's clock was set back. A message is less exact than a
# record that says that the window is full now. A window keeps its reset if the newer fact says
# none, and a full one also if it says the same one. A figure that may be old does not lower the
# share of a window that still runs, and changes nothing if it is of an earlier one.
STORE = """insert into ledger_accountwindow as w
    (project_id, account, "window", used, resets_at, source, seen_at)
select %(project)s, %(account)s::text, f.name, f.used, f.resets_at, %(source)s::text, f.seen_at
from unnest(%(windows)s::text[], %(used)s::float8[], %(resets)s::timestamptz[],
    %(seen)s::timestamptz[], %(old)s::bool[]) f(name, used, resets_at, seen_at, may_be_old)
where not (f.may_be_old and exists (
    select from ledger_accountwindow w where w.project_id = %(project)s
        and w.account = %(account)s::text and w."window" = f.name and w.resets_at > %(now)s
        and (f.used < w.used or f.resets_at < w.resets_at - %(same)s::interval)
        and coalesce(f.resets_at <= w.resets_at + %(same)s::interval, true)
))
on conflict (project_id, account, "window") do update set used = excluded.used,
    resets_at = case when w.resets_at > %(now)s and (excluded.resets_at is null
            or excluded.used >= 1 and w.used >= 1 and (excluded.resets_at <= %(now)s
                or excluded.resets_at between w.resets_at - %(same)s::interval
                    and w.resets_at + %(same)s::interval))
        then w.resets_at else excluded.resets_at end,
    source = excluded.source, seen_at = excluded.seen_at,
    facts = case when w.resets_at > %(now)s and (excluded.resets_at is null or excluded.resets_at
                between w.resets_at - %(same)s::interval and w.resets_at + %(same)s::interval)
        then w.facts + 1 else 1 end
where (excluded.seen_at > w.seen_at or w.seen_at > %(now)s)
    and (excluded.source <> 'message' or w.source = 'message' or w.used < 1
        or coalesce(w.resets_at <= %(now)s, true))
returning new."window", new.resets_at as known_reset, old.used, old.resets_at, old.seen_at"""
ACCOUNT_NAME = "coalesce(nullif(a.account, ''), a.name)"
# An account is that of agents, or facts about it have come. Its id is that of its oldest row.
NAMES_SHOWN = 4
NAMED = f"""named as (
    select a.id, a.project_id, {ACCOUNT_NAME} as name, a.name as agent, null::float as used
    from ledger_agent a
    where not a.is_pool and (%(project)s::uuid is null or a.project_id = %(project)s)
    union all
    select w.id, w.project_id, w.account, null,
        case when coalesce(w.resets_at > %(now)s, true) then w.used end
    from ledger_accountwindow w where %(project)s::uuid is null or w.project_id = %(project)s
), accounts as (
    select n.project_id, n.name, min(n.id::text)::uuid as id, count(n.agent) as agents,
        max(n.used) as used
    from named n group by 1, 2
)"""
PAGE = f"""select p.id, p.project_id, p.name, p.agents,
    (array_agg(n.agent order by n.id) filter (where n.agent is not null))[1:{NAMES_SHOWN}] as names
from page p join named n on n.project_id = p.project_id and n.name = p.name
group by 1, 2, 3, 4, p.place order by p.place"""
NEWEST = f"""with {NAMED}, page as (
    select a.*, row_number() over (order by a.id desc) as place from accounts a
    where %(before)s::uuid is null or a.id < %(before)s order by a.id desc limit %(limit)s
) {PAGE}"""
# those at their limit first, then by the share that is used now; those that tell nothing last
MOST_USED = f"""with {NAMED}, page as (
    select a.*, row_number() over (
        order by a.used desc nulls last, a.agents desc, a.name, a.id) as place
    from accounts a order by place limit %(limit)s offset %(offset)s
) {PAGE}"""


def follows_wait(agent: str) -> str:
    """Return the SQL that tells whether no success has come since the agent's last own wait."""
    # By the ids, so that it reads the attempts since then: few take longer than a day.
    return f"""({agent}.wait_step_s > 0 and not exists (
            select from ledger_attempt t where t.agent_id = {agent}.id
                and t.id >= (select uuidv7(
                    {agent}.waits_until - clock_timestamp() - interval '1 day 1 minute'))
                and t.outcome = '{Outcome.SUCCESS}' and t.ended_at > {agent}.waits_until
        ))"""


# An agent whose wait is the account's gets a shorter one too, with its tasks that wait as long. One
# that does not wait begins a wait that is not one of its own in a row, and takes no time of these.
CHANGE = f"""with {TrustedCaller.cte}, found as materialized (
    select a.id, a.waits_until, a.waits_until > %(now)s as waits,
        case when a.waits_until <= %(now)s then {follows_wait("a")} end as follows
    from ledger_agent a where a.id = any(%(ids)s) and (
        a.id is distinct from %(but_for)s and coalesce(a.waits_until <= %(now)s
            or a.waits_until < %(after)s - %(same)s::interval, true)
        or a.waits_until > %(after)s and a.waits_until
            between %(before)s::timestamptz - %(same)s::interval
                and %(before)s::timestamptz + %(same)s::interval
            and %(after)s < %(before)s::timestamptz - %(same)s::interval)
    order by a.id for no key update
), sooner as (
    update ledger_task t set due_at = greatest(%(after)s, t.not_before), version = t.version + 1,
        updated_at = %(now)s
    from found f where t.agent_id = f.id and t.state = '{TaskState.RETRY}'
        and t.due_at = f.waits_until and f.waits_until > %(after)s
), changed as (
    update ledger_agent a set waits_until = %(after)s, waits_for = %(line)s,
        wait_step_s = case when f.waits or f.follows then a.wait_step_s else 0 end,
        waits_in_row = case when f.waits or f.follows then a.waits_in_row else 0 end,
        waits_since = case when f.waits then a.waits_since
            when f.follows then a.waits_since + (%(after)s - %(now)s) end
    from found f where a.id = f.id returning a.id, a.project_id
) {
    journal.insert_without_states(
        "changed", kind=f"'{Kind.AGENT_WAIT_SET}'", subject="agent", agent="m.id", data="%(data)s"
    )
}"""


@dataclass(frozen=True, slots=True)
class Account:
    """An account with its number of agents, the names of the first ones, and its windows."""

    id: UUID
    project_id: UUID
    name: str
    agents: int
    agent_names: list[str]
    windows: list[AccountWindow]

    def waits_until(self, now: datetime) -> datetime | None:
        """Return until when its agents wait; None if no window is at its limit."""
        return latest_wait((window.fact for window in self.windows), now=now)


def list_newest(
    project_id: UUID, *, now: datetime, before: UUID | None, most: int
) -> list[Account]:
    """Return the project's accounts, the ones that became known last first."""
    return with_windows(sql.run(NEWEST, project=project_id, now=now, before=before, limit=most))


def list_most_used(
    project_id: UUID | None, *, now: datetime, offset: int, most: int
) -> list[Account]:
    """Return the accounts of a project, or of all, those with the least room first."""
    return with_windows(sql.run(MOST_USED, project=project_id, now=now, offset=offset, limit=most))


def with_windows(rows: list[Row]) -> list[Account]:
    windows = list_windows({(row["project_id"], row["name"]) for row in rows})
    return [
        Account(
            row["id"],
            row["project_id"],
            row["name"],
            row["agents"],
            row["names"] or [],
            windows[row["project_id"], row["name"]],
        )
        for row in rows
    ]


def note_windows(
    agent_id: UUID,
    facts: Iterable[WindowFact],
    *,
    source: LimitSource,
    caller: Caller | None = None,
    now: datetime,
    but_for: UUID | None = None,
) -> None:
    """Store facts about an account; its agents wait while a window is at its limit.

    It is the account that the caller's token names, or else the agent's; the agent waits for either
    one. The wait of the agent `but_for` is stored by who calls this, which only shortens it.
    """
    found = newest_facts(
        checked for fact in facts if (checked := check_fact(fact, now=now)) is not None
    )
    if found:  # most heartbeats have none, and need no transaction
        store_windows(agent_id, found, source=source, caller=caller, now=now, but_for=but_for)


@sql.atomic
def store_windows(
    agent_id: UUID,
    found: list[WindowFact],
    *,
    source: LimitSource,
    caller: Caller | None,
    now: datetime,
    but_for: UUID | None,
) -> None:
    agent = Agent.objects.get(pk=agent_id)
    named = find_named_account(caller)
    bill_to_token(agent, named, stamp=Stamp(SYSTEM, now))
    project_id, account = agent.project_id, named or agent.account_name
    lock_accounts({(project_id, account)})
    stored = sql.run(
        STORE,
        project=project_id,
        account=account,
        same=SAME_RESET,
        now=now,
        windows=[fact.window.value for fact in found],
        used=[fact.used for fact in found],
        resets=[fact.resets_at for fact in found],
        seen=[fact.seen_at for fact in found],
        old=[fact.may_be_old for fact in found],
        source=source.value,
    )
    if not stored:
        return
    known = {LimitWindow(row["window"]): row for row in stored}
    before = [
        WindowFact(window, row["used"], row["resets_at"], row["seen_at"])
        for window, row in known.items()
        if row["seen_at"]
    ]
    # Most facts say that there is room, as those before them did.
    new = [
        replace(fact, resets_at=known[fact.window]["known_reset"])
        for fact in found
        if fact.window in known
    ]
    if latest_wait([*before, *new], now=now) is None:
        return
    windows = read_windows(project_id, account)
    change_waits(
        (Agent.objects.of_account(account) | Agent.objects.filter(pk=agent_id)).filter(
            project_id=project_id
        ),
        account,
        before=latest_wait([*windows, *before], now=now),
        after=latest_wait(windows, now=now),
        now=now,
        but_for=but_for,
    )


@sql.atomic
def issue_token(
    kind: str, *, account: str, agent: Agent | None, stamp: Stamp, **options: Any
) -> tuple[Token, str]:
    """Create a token that may name the account of its agent's calls, as `tokens.issue` does."""
    name = check_account(account)
    if name and agent is None:
        raise Invalid("/account", "Only an agent's token can name an account.")
    token, secret = tokens.issue(kind, agent=agent, account=name, stamp=stamp, **options)
    if agent:
        bill_to_token(Agent.objects.get(pk=agent.pk), name, stamp=stamp)
    return token, secret


def find_named_account(caller: Caller | None) -> str:
    if isinstance(caller, Bearer):
        found = Token.objects.filter(digest=caller.digest)
    elif isinstance(caller, TrustedCaller) and caller.actor.type == "token":
        found = Token.objects.filter(pk=caller.actor.id)
    else:
        return ""
    return found.values_list("account", flat=True).first() or ""


def bill_to_token(agent: Agent, account: str, *, stamp: Stamp) -> None:
    """Bill an agent that has no account of its own to the one that its token names."""
    if account and not agent.account:
        set_account([agent], account=account, only=Q(account=""), stamp=stamp)


@sql.atomic
def set_account(
    found: Sequence[Agent], *, account: str, only: Q | None = None, stamp: Stamp
) -> list[Agent]:
    """Bill these agents' calls to an account, by default to their own; return those that changed.

    They wait as the new account's limits say. With `only`, others keep the account that they have
    when their rows are locked.
    """
    name = check_account(account)
    current = Agent.objects.filter(pk__in=[agent.pk for agent in found])
    lock_accounts(
        {
            (agent.project_id, each)
            for agent in current
            for each in (agent.account_name, name or agent.name)
        }
    )
    locked = list(current.filter(only or Q()).select_for_update(no_key=True).order_by("pk"))
    former = {agent.pk: agent.account_name for agent in locked}
    changed = agents.update_agents(
        locked, "account", name, kind=Kind.AGENT_LIMITED, data={"account": name}, stamp=stamp
    )
    for agent in changed:
        change_waits(
            Agent.objects.filter(pk=agent.pk),
            agent.account_name,
            before=find_wait(agent.project_id, former[agent.pk], now=stamp.at),
            after=find_wait(agent.project_id, agent.account_name, now=stamp.at),
            now=stamp.at,
        )
    return changed


def check_account(name: str) -> str:
    name = name.strip()
    if len(name) > ACCOUNT_LENGTH or not name.isprintable():
        raise Invalid(
            "/account", f"An account's name has at most {ACCOUNT_LENGTH} printable characters."
        )
    if redacted(name) != name:
        raise Invalid("/account", "An account's name must not contain a secret. Choose another.")
    return name


def lock_accounts(names: set[tuple[UUID, str]]) -> None:
    sql.run(
        LOCK, projects=[project for project, _ in names], accounts=[account for _, account in names]
    )


def find_wait(project_id: UUID, account: str, *, now: datetime) -> datetime | None:
    return latest_wait(read_windows(project_id, account), now=now)


def check_fact(fact: WindowFact, *, now: datetime) -> WindowFact | None:
    """Return the fact with times that can be right; None if it is too old."""
    if now - fact.seen_at > MOST_DISTANCE:
        return None
    # The clock of the agent's machine may be ahead.
    seen_at = min(fact.seen_at, now).astimezone(UTC)
    resets_at = fact.resets_at
    if resets_at is not None and abs(resets_at - now) <= MOST_DISTANCE:
        # A time without a date that has just passed was read as tomorrow's.
        is_late = fact.window == LimitWindow.FIVE_HOURS and resets_at - seen_at > MOST_FIVE_HOURS
        return replace(
            fact, seen_at=seen_at, resets_at=None if is_late else resets_at.astimezone(UTC)
        )
    return replace(fact, seen_at=seen_at, resets_at=None)


def list_windows(names: set[tuple[UUID, str]]) -> dict[tuple[UUID, str], list[AccountWindow]]:
    windows: dict[tuple[UUID, str], list[AccountWindow]] = defaultdict(list)
    rows = AccountWindow.objects.filter(
        project__in={project for project, _ in names}, account__in={name for _, name in names}
    )
    for row in rows.order_by("window"):
        windows[row.project_id, row.account].append(row)
    return windows


def read_windows(project_id: UUID, account: str) -> list[WindowFact]:
    rows = AccountWindow.objects.filter(project_id=project_id, account=account)
    return [row.fact for row in rows]


def change_waits(
    found: QuerySet[Agent],
    account: str,
    *,
    before: datetime | None,
    after: datetime | None,
    now: datetime,
    but_for: UUID | None = None,
) -> None:
    """Let agents wait until `after` if they waited until `before` for the account's limit.

    The wait of the agent `but_for` gets no longer.
    """
    # A wait that ends at another time is for something else, such as a limit of requests a minute.
    stamp = Stamp(SYSTEM, now)
    if after is None:
        if before:
            is_own = Q(waits_until__range=(before - SAME_RESET, before + SAME_RESET))
            agents.resume_early(found, only=is_own, stamp=stamp)
        return
    sql.run(
        CHANGE,
        ids=list(found.values_list("pk", flat=True)),
        but_for=but_for,
        before=before,
        after=after,
        same=SAME_RESET,
        line=f"The account {account} is at its limit.",
        data=Jsonb({"account": account, "waits_until": format_timestamp(after)}),
        now=now,
        **TrustedCaller(SYSTEM).params,
    )
