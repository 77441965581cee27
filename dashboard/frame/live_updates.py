"""Keys that change when a page has something new to show, so that most polls read nothing else.

A key joins the second of the response, the journal's settled position, and the newest change among
the rows that the page shows (a long transaction holds the settled position back). Ages and
countdowns run in the browser; what else only time changes is sent again after MAX_AGE_SECONDS.
A response with the content that the page already shows is not sent: see `hash_content`.
"""

import hashlib
import re
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import Model

from dashboard.lists.pagination import PAGE
from ledger import journal
from ledger.database import sql
from ledger.models import (
    AccountWindow,
    Agent,
    DeadLetter,
    Instruction,
    Plan,
    Project,
    Session,
    StandingInstruction,
    Task,
)
from retries.models import FailurePattern
from retries.states import EscalationState

MAX_AGE_SECONDS = 120
# the parts that differ between two responses with the same content
VOLATILE = re.compile(
    rb"""
    \sdata-since="[^"]*" | \sname="csrfmiddlewaretoken"\svalue="[^"]*"
    | (?<=>)[^<]*(?=</time>)  # times.js writes the text of times
    """,
    re.VERBOSE,
)
# reads no text from outside: text in a page is escaped and has no quotation mark
COUNTDOWN = re.compile(
    rb'data-countdown="(?P<text>\d+)"[^<]*|data-cool="(?P<ring>\d+)".*?</(?:g|svg)>', re.DOTALL
)
COUNTDOWN_STEP = 10


def live_key_sql(table: str, changed: str = "updated_at", *, order: str = "id") -> str:
    return f"""select head.tx, head.id, newest.at as newest
    from (
        select max(at) as at from (
            select {changed} as at from {table} i
            where (%(project)s::uuid is null or i.project_id = %(project)s)
                and (%(row)s::uuid is null or i.id = %(row)s)
            order by i.{order} desc limit {PAGE}) shown
    ) newest left join ({journal.HEAD}) head on true"""


# a plan's page shows its tasks; in the list of plans the journal covers their changes
PLAN_LIVE_KEY = f"""select head.tx, head.id, newest.at as newest
    from (
        select greatest(
            (select updated_at from ledger_plan where id = %(row)s),
            (select max(updated_at) from ledger_task where plan_id = %(row)s)) as at
    ) newest left join ({journal.HEAD}) head on true"""

# a task's page shows its running attempt, whose heartbeats don't change the task
TASK_LIVE_KEY = f"""select head.tx, head.id, newest.at as newest
    from (
        select greatest(
            (select updated_at from ledger_task where id = %(row)s),
            (select max(heartbeat_at) from ledger_attempt where task_id = %(row)s)) as at
    ) newest left join ({journal.HEAD}) head on true"""
OWN_LIVE_KEYS: dict[type[Model], str] = {Plan: PLAN_LIVE_KEY, Task: TASK_LIVE_KEY}

LIVE_KEYS: dict[type[Model], str] = {
    Instruction: live_key_sql("ledger_instruction"),
    Task: live_key_sql("ledger_task"),
    DeadLetter: live_key_sql("ledger_deadletter", "coalesce(closed_at, failed_at)"),
    Plan: live_key_sql("ledger_plan"),
    FailurePattern: live_key_sql("retries_failurepattern"),
    StandingInstruction: live_key_sql("ledger_standinginstruction"),
    Session: live_key_sql("ledger_session"),
    # The journal covers the waits, and no other change of a window.
    AccountWindow: live_key_sql("ledger_accountwindow", "seen_at", order="seen_at"),
    # The journal covers all other changes to agents.
    Agent: live_key_sql("ledger_instruction"),
}

# each change of an open escalation raises its version, and opening or closing one changes the count
INBOX_LIVE_KEY = f"""select head.tx, head.id, open.count, open.versions, open.newest, open.snoozed
from (
    select count(*), sum(version) as versions, extract(epoch from max(opened_at))::bigint as newest,
        count(*) filter (where snoozed_until > now()) as snoozed
    from retries_escalation where state = '{EscalationState.OPEN}'
) open left join ({journal.HEAD}) head on true"""

# any session may be the most recently active one, and messages are not in the journal
SESSIONS_LIVE_KEY = f"""select head.tx, head.id,
    (select max(last_message_at) from ledger_session) as active,
    (select max(updated_at) from (
        select updated_at from ledger_session order by last_message_at desc limit {PAGE}
    ) shown) as newest
from (select) as one left join ({journal.HEAD}) head on true"""


def read_live_key(
    *,
    now: datetime,
    project: Project | None = None,
    row: UUID | None = None,
    of: type[Model] = Instruction,
) -> str:
    """Return a page's live key; read it before what the page shows."""
    text = OWN_LIVE_KEYS.get(of, LIVE_KEYS[of]) if row else LIVE_KEYS[of]
    # planned with its values: a generic plan would scan the whole table to find one row
    found = sql.run_custom_plan(text, project=project.id if project else None, row=row)[0]
    newest = f"{found['newest'].timestamp():.6f}" if found["newest"] else "0"
    return stamp_key(now, f"{found['tx'] or 0}.{found['id'] or 0}.{newest}")


def read_inbox_live_key(*, now: datetime) -> str:
    """Return the inbox's live key; read it before what the page shows."""
    parts = [str(part or 0) for part in sql.run(INBOX_LIVE_KEY)[0].values()]
    return stamp_key(now, ".".join(parts[:2]), ".".join(parts[2:]))


def escalations_in(key: str) -> str:
    """Return the part of the inbox's live key that changes only with escalations."""
    return split_key(key)[1].split(".")[1]


def read_session_list_key(*, now: datetime) -> str:
    """Return the session list's live key; read it before what the page shows."""
    parts = ".".join(str(part or 0) for part in sql.run(SESSIONS_LIVE_KEY)[0].values())
    return stamp_key(now, parts)


def stamp_key(now: datetime, *position: str) -> str:
    """Return the live key of a page that is rendered now and shows this position."""
    # The parts of the position are hashed: they may name and count rows of other projects.
    return f"{int(now.timestamp())}~{'.'.join(map(hash_part, position))}"


def hash_part(part: str) -> str:
    secret = settings.SECRET_KEY.encode()[: hashlib.blake2b.MAX_KEY_SIZE]
    return hashlib.blake2b(part.encode(), digest_size=8, key=secret).hexdigest()


def is_current(since: str, key: str, *, max_age: int | None = None) -> bool:
    """Return whether a page with the live key `since` shows what a page with `key` would show."""
    (at, position, _), (now, newest) = split_key(since), key.split("~")
    # `since` comes from the address, so it may hold anything.
    age = int(now) - int(at) if at.isascii() and at.isdigit() and len(at) < 12 else -1
    return position == newest and 0 <= age < (MAX_AGE_SECONDS if max_age is None else max_age)


def split_key(since: str) -> tuple[str, str, str]:
    """Split a page's live key into its second, its position, and the hash of its content."""
    at, position, content = [*since.split("~"), "", "", ""][:3]
    return at, position, content


def hash_content(content: bytes, now: datetime) -> str:
    # What the browser keeps current by itself must not change the hash.
    epoch = int(now.timestamp())

    def round_end(found: re.Match[bytes]) -> bytes:
        return b"%d" % ((epoch + int(found["text"] or found["ring"])) // COUNTDOWN_STEP)

    stable = COUNTDOWN.sub(round_end, VOLATILE.sub(b"", content))
    return hashlib.blake2b(stable, digest_size=8).hexdigest()
