"""Accounts: what agents' calls are billed to, with the limits of their windows.

Facts about the windows come from agents' own records and messages. While a window is at its limit,
the agents of the account wait until it resets.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q, QuerySet

from ledger import agents
from ledger.database import sql
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import AccountWindow, Agent
from ledger.models.agent import ACCOUNT_LENGTH
from ledger.secrets.redaction import redacted
from ledger.values.account_windows import (
    LimitSource,
    LimitWindow,
    WindowFact,
    latest_wait,
    newest_facts,
)
from ledger.values.timestamps import format_timestamp

MOST_DISTANCE = timedelta(days=366)
# A fact that is no newer than the stored one changes nothing, so a record can be read again. The
# rows are stored in one order, so that two statements can't wait for each other.
STORE = """insert into ledger_accountwindow
    (project_id, account, "window", used, resets_at, source, seen_at)
select a.project_id, coalesce(nullif(a.account, ''), a.name), f.name, f.used, f.resets_at,
    %(source)s::text, f.seen_at
from ledger_agent a, unnest(%(windows)s::text[], %(used)s::float8[], %(resets)s::timestamptz[],
    %(seen)s::timestamptz[]) f(name, used, resets_at, seen_at)
where a.id = %(agent)s order by f.name
on conflict (project_id, account, "window") do update set used = excluded.used,
    resets_at = excluded.resets_at, source = excluded.source, seen_at = excluded.seen_at
where excluded.seen_at > ledger_accountwindow.seen_at
returning new.project_id, new.account, new."window", old.used, old.resets_at, old.seen_at"""


@sql.atomic
def note_windows(
    agent_id: UUID,
    facts: Iterable[WindowFact],
    *,
    source: LimitSource,
    now: datetime,
    but_for: UUID | None = None,
) -> None:
    """Store facts about the agent's account; its agents wait while a window is at its limit.

    The wait of the agent `but_for` is its caller's to store.
    """
    found = newest_facts(
        checked for fact in facts if (checked := check_fact(fact, now=now)) is not None
    )
    if not found:
        return
    stored = sql.run(
        STORE,
        agent=agent_id,
        windows=[fact.window.value for fact in found],
        used=[fact.used for fact in found],
        resets=[fact.resets_at for fact in found],
        seen=[fact.seen_at for fact in found],
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
    new = [fact for fact in found if fact.window in known]
    if latest_wait([*before, *new], now=now) is None:
        return
    project_id, account = stored[0]["project_id"], stored[0]["account"]
    windows = read_windows(project_id, account)
    waiting = agents_of(project_id, account)
    change_waits(
        waiting.exclude(pk=but_for) if but_for else waiting,
        account,
        before=latest_wait([*windows, *before], now=now),
        after=latest_wait(windows, now=now),
        now=now,
    )


@sql.atomic
def set_account(found: Sequence[Agent], *, account: str, stamp: Stamp) -> list[Agent]:
    """Bill these agents' calls to an account, by default to their own; return those that changed.

    They wait as the new account's limits say.
    """
    name = check_account(account)
    locked = Agent.objects.select_for_update(no_key=True).filter(
        pk__in=[agent.pk for agent in found]
    )
    former = {agent.pk: agent.account_name for agent in locked.order_by("pk")}
    changed = agents.update_agents(
        found, "account", name, kind=Kind.AGENT_LIMITED, data={"account": name}, stamp=stamp
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


def find_wait(project_id: UUID, account: str, *, now: datetime) -> datetime | None:
    return latest_wait(read_windows(project_id, account), now=now)


def agents_of(project_id: UUID, account: str) -> QuerySet[Agent]:
    own = Q(account=account) | Q(account="", name=account)
    return Agent.objects.filter(own, project_id=project_id)


def check_fact(fact: WindowFact, *, now: datetime) -> WindowFact | None:
    """Return the fact with times that can be right; None if it is too old."""
    if now - fact.seen_at > MOST_DISTANCE:
        return None
    is_near = fact.resets_at is not None and abs(fact.resets_at - now) <= MOST_DISTANCE
    # The clock of the agent's machine may be ahead.
    seen_at = min(fact.seen_at, now)
    return replace(fact, seen_at=seen_at, resets_at=fact.resets_at if is_near else None)


def list_windows(found: Iterable[Agent]) -> dict[tuple[UUID, str], list[AccountWindow]]:
    """Return the windows of these agents' accounts, by project and account."""
    names = {(agent.project_id, agent.account_name) for agent in found}
    windows: dict[tuple[UUID, str], list[AccountWindow]] = defaultdict(list)
    rows = AccountWindow.objects.filter(
        project__in={project for project, _ in names}, account__in={name for _, name in names}
    )
    for row in rows.order_by("window"):
        windows[row.project_id, row.account].append(row)
    return windows


def read_windows(project_id: UUID, account: str) -> list[WindowFact]:
    rows = AccountWindow.objects.filter(project_id=project_id, account=account)
    return [
        WindowFact(LimitWindow(row.window), row.used, row.resets_at, row.seen_at) for row in rows
    ]


def change_waits(
    found: QuerySet[Agent],
    account: str,
    *,
    before: datetime | None,
    after: datetime | None,
    now: datetime,
) -> None:
    """Let agents wait until `after` if they waited until `before` for the account's limit."""
    # A wait that ends at another time is for something else, such as a limit of requests a minute.
    stamp = Stamp(SYSTEM, now)
    if before and (after is None or after < before):
        agents.resume_early(found.filter(waits_until=before), stamp=stamp)
    if after is None:
        return
    is_shorter = Q(waits_until=None) | Q(waits_until__lt=after)
    waiting = list(found.filter(is_shorter).select_for_update(no_key=True).order_by("pk"))
    line = f"The account {account} is at its limit."
    Agent.objects.filter(pk__in=[agent.pk for agent in waiting]).update(
        waits_until=after, waits_for=line
    )
    data = {"account": account, "waits_until": format_timestamp(after)}
    for agent in waiting:
        agents.record_change(agent, Kind.AGENT_LIMITED, data=data, stamp=stamp)
