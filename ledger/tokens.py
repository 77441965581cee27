"""Issue, revoke and recognize bearer tokens; provide the `caller` CTE of hand-written SQL."""

import hashlib
import json
import re
import secrets
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Protocol
from uuid import UUID

from django.db import transaction

from ledger import journal
from ledger.access.call_facts import describe_call
from ledger.access.scopes import PRESETS, TOKENS_WRITE, choose_scopes
from ledger.authorization.permissions import holds_scope, may
from ledger.authorization.principal import Principal
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import Invalid, InvalidTransition, Refusal
from ledger.journal import Actor, Kind, Stamp
from ledger.models import Agent, Project, Token
from ledger.models.token import TokenKind
from ledger.secrets.redaction import redacted

MOVE_RETRY_AFTER_S = 5
DEFAULT_DAYS = 90  # of a new token, unless its creator says otherwise
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SHORT = {
    TokenKind.AGENT: "agt",
    TokenKind.ORCHESTRATOR: "orc",
    TokenKind.OPERATOR: "opr",
    TokenKind.READER: "ro",
}
FORM = re.compile(r"tenfour_(agt|orc|opr|ro)_([0-9A-Za-z]{30})_([0-9A-Za-z]{6})")


class TokenMissing(Refusal):
    """Authentication required"""

    code = "token_missing"
    hint = "Send an 'Authorization: Bearer tenfour_…' header."


class TokenInvalid(Refusal):
    """Invalid token"""

    code = "token_invalid"
    hint = (
        "Check that you copied the whole token, or create a new one at /agents/connect/ or with "
        "'manage.py token'."
    )


class TokenExpired(Refusal):
    """Expired token"""

    code = "token_expired"
    hint = "Create a new token at /agents/connect/ or with 'manage.py token'."


class TokenRevoked(Refusal):
    """Revoked token"""

    code = "token_revoked"
    hint = "Create a new token at /agents/connect/ or with 'manage.py token'."


class ProjectMoving(Refusal):
    """Project moving"""

    code = "project_moving"
    retryable = True
    hint = "Send the request again later. The token stays valid in the other installation."


class ScopeMissing(Refusal):
    """Insufficient scope"""

    code = "scope_missing"
    hint = "Use a token that has this scope. 'GET /v1/me' lists the scopes of your token."


def checksum(text: str) -> str:
    """Return the CRC-32 of `text` as six base62 digits."""
    number, digits = zlib.crc32(text.encode()), ""
    while len(digits) < 6:
        number, rest = divmod(number, 62)
        digits = BASE62[rest] + digits
    return digits


def new_secret(kind: TokenKind) -> str:
    """Return a secret: tenfour_<kind>_<30 random base62 digits>_<checksum>."""
    stem = f"tenfour_{SHORT[kind]}_" + "".join(secrets.choice(BASE62) for _ in range(30))
    return f"{stem}_{checksum(stem)}"


def digest_of(secret: str) -> bytes:
    """Return the SHA-256 of a well-formed secret; raises TokenInvalid without a query."""
    match = FORM.fullmatch(secret)
    if match is None or checksum(secret[:-7]) != match[3]:
        raise TokenInvalid("This is not a Tenfour token: its form or its checksum is wrong.")
    return hashlib.sha256(secret.encode()).digest()


@transaction.atomic
def issue(
    kind: str,
    *,
    project: Project,
    agent: Agent | None = None,
    name: str = "",
    account: str = "",
    days: int | None = None,
    manages_tokens: bool = False,
    scopes: Collection[str] | None = None,
    id: UUID | None = None,
    stamp: Stamp,
) -> tuple[Token, str]:
    """Create a token and return it with its secret, which is not stored.

    It expires after `days`, or as the setting says. Only an operator's token can have
    `tokens:write`, and only if a person grants it with `manages_tokens`; raises ValueError for
    others. `scopes` are some of the kind's, all by default. `ledger.accounts.issue_token` creates
    one that names an account.
    """
    if agent and agent.is_pool:
        raise Invalid("/agent", f"'{agent.name}' is a pool. Create tokens for its members.")
    kind = TokenKind(kind)
    if manages_tokens and kind != TokenKind.OPERATOR:
        raise ValueError("Only an operator's token can manage tokens.")
    own = choose_scopes(kind, scopes)
    token, secret = insert_token(
        kind,
        project_id=project.pk,
        agent_id=agent.pk if agent else None,
        name=redacted(name)[:64] or (agent.name if agent else kind.value)[:64],
        account=account,
        scopes=own | ({TOKENS_WRITE} if manages_tokens else set()),
        days=days,
        stamp=stamp,
        **({"id": id} if id else {}),
    )
    named: dict[str, Any] = {"account": account} if account else {}
    if own != PRESETS[kind]:
        named["scopes"] = sorted(own)
    record_event(Kind.TOKEN_CREATED, token, stamp=stamp, kind=kind.value, **named)
    return token, secret


def insert_token(
    kind: TokenKind, *, scopes: Iterable[str], days: int | None, stamp: Stamp, **columns: Any
) -> tuple[Token, str]:
    secret = new_secret(kind)
    lifetime = timedelta(days=DEFAULT_DAYS if days is None else days)
    token = Token.objects.create(
        kind=kind,
        prefix=secret[: len(f"tenfour_{SHORT[kind]}_") + 4],
        digest=digest_of(secret),
        scopes=sorted(scopes),
        created_by=stamp.actor.name,
        created_at=stamp.at,
        expires_at=stamp.at + lifetime,
        **columns,
    )
    return token, secret


@transaction.atomic
def revoke(token: Token, *, stamp: Stamp) -> bool:
    """Revoke a token; return False if it was already revoked."""
    if not Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=stamp.at):
        return False
    record_event(Kind.TOKEN_REVOKED, token, stamp=stamp)
    return True


@transaction.atomic
def rotate(token: Token, *, overlap: timedelta, stamp: Stamp) -> tuple[Token, str]:
    """Create a token that replaces another; return it with its secret.

    It has the kind, agent, name, account, scopes, and lifetime of the old token, which stays valid
    for `overlap` at most. Raises InvalidTransition if the old one is no longer valid.
    """
    old = Token.objects.select_for_update(no_key=True).get(pk=token.pk)
    is_expired = old.expires_at is not None and old.expires_at <= stamp.at
    if old.revoked_at or is_expired:
        state = "expired" if is_expired else "revoked"
        raise InvalidTransition(
            f"The token {old.prefix}… is {state} and can't be rotated. Create a new one.",
            current=state,
            allowed=[],
        )
    lifetime = old.expires_at - old.created_at if old.expires_at else None
    new, secret = insert_token(
        TokenKind(old.kind),
        project_id=old.project_id,
        agent_id=old.agent_id,
        name=old.name,
        account=old.account,
        scopes=old.scopes,
        days=max(1, lifetime.days) if lifetime else None,
        stamp=stamp,
    )
    until = stamp.at + overlap
    old.expires_at = min(old.expires_at, until) if old.expires_at else until
    old.save(update_fields=["expires_at"])
    record_event(Kind.TOKEN_ROTATED, old, stamp=stamp, replaced_by=new.prefix)
    return new, secret


def record_event(what: Kind, token: Token, *, stamp: Stamp, **data: str) -> None:
    journal.record_about("token", token, what, stamp=stamp, data=data | {"prefix": token.prefix})


def record_bulk_use(caller: Principal, done: str, count: int, *, stamp: Stamp) -> None:
    """Record that a token changed many rows with one call, such as 12 that it "replayed"."""
    journal.record(
        Kind.TOKEN_USED_IN_BULK,
        subject_type="token",
        subject_id=caller.token_id,
        project_id=caller.project_id,
        agent_id=caller.agent_id,
        stamp=stamp,
        data={"done": done, "count": count},
    )


# ---- callers


class Caller(Protocol):
    """The party that a statement acts for, as a CTE named `caller` with one row or none."""

    cte: str

    @property
    def params(self) -> dict[str, Any]: ...

    def mark_seen(self, now: datetime, *, works: bool) -> None: ...

    def refuse(self, now: datetime) -> Exception: ...


# The first call is what the page that connects an agent waits for; it is stored once.
# A claim within a limit holds the agent's row before, so that row is locked first here, too.
MARK_SEEN = """with seen as (
    update ledger_agent a set last_seen_at = %(now)s,
        last_worked_at = case when %(works)s then %(now)s else a.last_worked_at end
    from ledger_token t where t.digest = %(digest)s and a.id = t.agent_id returning a.id
) update ledger_token set last_used_at = %(now)s,
        first_used_at = case when last_used_at is null then %(now)s else first_used_at end,
        first_call = case when last_used_at is null then %(call)s::jsonb else first_call end
    where digest = %(digest)s and (select count(*) from seen) >= 0"""


def select_unseen(found: str) -> str:
    """Return the SQL of `unseen` for a statement whose column `found` is null if it found nothing.

    Such a call is no work, and must not be recorded each time by an agent that never works.
    """
    return f"case when {found} is null then c.unheard else c.unseen end as unseen"


def is_mark_due(column: str) -> str:
    """Return the SQL that tells whether a time of the agent `a` or its token `t` is old."""
    return f"""(coalesce(t.last_used_at < %(now)s - interval '1 minute', true)
                or coalesce(a.{column}, '-infinity') < %(now)s - interval '5 seconds'
                    and a.id is not null)"""


# a statement in one form for each kind of caller
Statements = dict[type[Caller], str]


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token that the statement itself looks up, so that a hot call is one round trip."""

    digest: bytes
    scope: str
    request_id: str = ""
    # the request's; the token's first call is described from it
    meta: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    cte = f"""caller as materialized (
        select t.id as token_id, t.project_id, t.agent_id, a.name as agent_name,
            'token' as actor_type, t.id::text as actor_id, t.name as actor_name,
            {is_mark_due("last_worked_at")} as unseen, {is_mark_due("last_seen_at")} as unheard,
            extract(epoch from %(now)s - greatest(t.created_at, a.last_worked_at))::int as idle_s
        from ledger_token t left join ledger_agent a on a.id = t.agent_id
        where t.digest = %(digest)s and t.revoked_at is null
            and (t.expires_at is null or t.expires_at > %(now)s)
            and {holds_scope("t", "%(scope)s")}
    )"""

    @property
    def params(self) -> dict[str, Any]:
        return {"digest": self.digest, "scope": self.scope, "request_id": self.request_id}

    def mark_seen(self, now: datetime, *, works: bool) -> None:
        """Record when the token was used, and when its agent last called and last worked."""
        # Only after a statement whose caller is `unseen`, or `unheard` if the agent got nothing.
        # Both are rare. As a part of every hot statement, this would cost more than the rest of it.
        call = json.dumps(describe_call(self.meta, now=now))
        sql.run(MARK_SEEN, digest=self.digest, now=now, call=call, works=works)

    def refuse(self, now: datetime) -> Exception:
        rows = Token.objects.select_related("project", "agent")
        token = rows.filter(digest=self.digest).first()
        if token is None:
            return TokenInvalid("This Tenfour has no such token; it may have been deleted.")
        refusal = self.explain_refusal(token, now)
        refusal.project_id = token.project_id
        return refusal

    def explain_refusal(self, token: Token, now: datetime) -> Refusal:
        if token.revoked_at and token.revoked_at == token.project.moving_since:
            return ProjectMoving(
                f"The project {token.project} moves to another installation.",
                retry_after_s=MOVE_RETRY_AFTER_S,
            )
        if token.revoked_at:
            return TokenRevoked(
                f"The token {token.prefix}… was revoked at {token.revoked_at:%F %T}Z."
            )
        if token.expires_at and token.expires_at <= now:
            return TokenExpired(f"The token {token.prefix}… expired at {token.expires_at:%F %T}Z.")
        if may(principal_of(token), self.scope):
            return ScopeMissing(
                "This call acts on an agent's own queue and needs an agent's token."
            )
        return ScopeMissing(
            f"The token {token.prefix}… of kind '{token.kind}' lacks the scope '{self.scope}'.",
            scope=self.scope,
        )


@dataclass(frozen=True)
class TrustedCaller:
    """A caller that needs no token: the system, a person, or code in the same process."""

    actor: Actor
    project_id: UUID | None = None
    agent: Agent | None = None
    request_id: str = ""
    # not materialized, so that PostgreSQL plans with the values themselves
    cte = """caller as not materialized (
        select %(project)s::uuid as project_id, %(agent)s::uuid as agent_id,
            %(agent_name)s::text as agent_name, %(actor_type)s::text as actor_type,
            %(actor_id)s::text as actor_id, %(actor_name)s::text as actor_name, false as unseen,
            false as unheard, 0 as idle_s
    )"""

    @cached_property
    def params(self) -> dict[str, Any]:
        return {
            "project": self.agent.project_id if self.agent else self.project_id,
            "agent": self.agent.id if self.agent else None,
            "agent_name": self.agent.name if self.agent else None,
            "actor_type": self.actor.type,
            "actor_id": self.actor.id,
            "actor_name": self.actor.name,
            "request_id": self.request_id,
        }

    def mark_seen(self, now: datetime, *, works: bool) -> None:
        """Do nothing: no token was used."""

    def refuse(self, now: datetime) -> Exception:
        return TypeError("this statement needs a caller with an agent")


def require_caller(rows: list[Row], caller: Caller, now: datetime) -> list[Row]:
    """Return the rows of a statement that starts at the CTE `caller`, without empty ones.

    Raises the reason why there is no such caller, and notes when it last called.
    """
    if not rows:
        raise caller.refuse(now)
    found = [row for row in rows if row["id"]]
    if rows[0]["unseen"]:
        caller.mark_seen(now, works=bool(found))
    return found


def principal_of(token: Token) -> Principal:
    return Principal(
        token_id=token.pk,
        kind=token.kind,
        name=token.name,
        project_id=token.project_id,
        project_name=token.project.name,
        agent_id=token.agent_id,
        agent_name=token.agent.name if token.agent else None,
        in_pools=bool(token.agent and token.agent.in_pools),
        scopes=frozenset(token.scopes),
    )


def fetch_principal(caller: Bearer, *, now: datetime) -> Principal:
    """Return the principal of a bearer token; raises the error that explains a refusal."""
    rows = sql.run(
        f"""with {caller.cte}
        select c.*, t.kind, t.scopes, p.name as project_name,
            (select a.in_pools from ledger_agent a where a.id = c.agent_id) as in_pools
        from caller c join ledger_token t on t.id = c.token_id
            join ledger_project p on p.id = c.project_id""",
        now=now,
        **caller.params | {"scope": ""},
    )
    if not rows:
        raise caller.refuse(now)
    row = rows[0]
    principal = Principal(
        token_id=row["token_id"],
        kind=row["kind"],
        name=row["actor_name"],
        project_id=row["project_id"],
        project_name=row["project_name"],
        agent_id=row["agent_id"],
        agent_name=row["agent_name"],
        in_pools=bool(row["in_pools"]),
        scopes=frozenset(row["scopes"]),
    )
    if not may(principal, caller.scope):
        raise caller.refuse(now)
    if row["unheard"]:
        caller.mark_seen(now, works=False)
    return principal
