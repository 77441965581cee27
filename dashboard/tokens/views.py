"""The Tokens page: a project's keys, whether they are used, and which expire soon."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from dashboard.form_values import read_whole_number
from dashboard.frame.access import may_open, takes_form
from dashboard.frame.live_updates import stamp_key
from dashboard.frame.rendering import (
    SETTINGS,
    HtmxRequest,
    Visit,
    begin_visit,
    compose_page,
    is_unchanged,
    respond,
    unchanged,
)
from dashboard.lists.pagination import read_numbered
from dashboard.lists.query_box import as_id
from dashboard.tokens import queries
from dashboard.tokens.queries import ListedToken
from ledger import accounts, agents, tokens
from ledger.access.scopes import SCOPES, TOKENS_WRITE
from ledger.database import server_time
from ledger.errors import Invalid, Refusal
from ledger.journal import stamp_of
from ledger.models import Token
from ledger.models.token import TokenKind
from ledger.schemas.tokens import MOST_DAYS

NAME_LENGTH = 64
# how long a rotated secret still works, in hours
OVERLAPS = (("24", "works for 24 h more"), ("1", "works for 1 h more"), ("0", "stops now"))


@dataclass(frozen=True, slots=True)
class NewToken:
    """The form of a new token as it was typed."""

    project: str = ""
    kind: str = ""
    agent: str = ""
    name: str = ""
    account: str = ""
    days: str = ""
    scopes: tuple[str, ...] = ()
    manages_tokens: bool = False

    def check(self) -> tuple[TokenKind, int | None]:
        """Return the kind and the days, None for the default; raise Invalid with what is wrong."""
        if self.kind not in TokenKind.values:
            raise Invalid("/kind", "Choose one of the kinds of tokens.")
        if len(self.name) > NAME_LENGTH:
            raise Invalid("/name", f"A name has at most {NAME_LENGTH} characters.")
        days = read_whole_number(self.days) if self.days else None
        if self.days and not (days and days <= MOST_DAYS):
            raise Invalid("/days", f"Give a whole number of days, from 1 to {MOST_DAYS:,}.")
        return TokenKind(self.kind), days


def read_form(posted: QueryDict) -> NewToken:
    def text(name: str) -> str:
        return posted.get(name, "").replace("\0", "").strip()

    return NewToken(
        project=text("project"),
        kind=text("kind"),
        agent=text("agent"),
        name=text("name"),
        account=text("account"),
        days=text("days"),
        scopes=tuple(posted.getlist("scope")),
        manages_tokens="manages_tokens" in posted,
    )


def index(request: HtmxRequest) -> HttpResponse:
    return show(begin_visit(request, current="settings"))


def show(
    visit: Visit,
    *,
    secret: str = "",
    token: Token | None = None,
    old: Token | None = None,
    error: str = "",
    form: NewToken | None = None,
    status_code: int = 200,
) -> HttpResponse:
    given, scope = visit.request.GET, visit.scope
    may_manage = may_open(visit.request.user, "token_act")
    kind = given.get("kind", "")
    kind = kind if kind in TokenKind.values else ""
    text = given.get("find", "").replace("\0", "").strip()[:NAME_LENGTH]
    rows = queries.filter_tokens(scope.project, kind=kind, text=text, now=visit.now)
    numbered = read_numbered(rows, given, "page", size=queries.LISTED)
    if may_manage and form is None and "new" in given:
        form = NewToken()
    page = compose_page(
        title="Tokens",
        crumbs=(SETTINGS,),
        status_code=status_code,
        project=scope.only,
        projects=scope.projects,
        tokens=[ListedToken(row, visit.now) for row in numbered.rows],
        numbered=numbered,
        text=text,  # the text that a name must contain
        counts=queries.count_tokens(scope.project, now=visit.now),
        kind=kind,
        may_manage=may_manage,
        # the token whose rotation the page asks about
        rotated=find_asked(visit, "rotate") if may_manage else None,
        revoked=find_asked(visit, "revoke") if may_manage else None,
        form=form,
        known_agents=queries.list_agents(scope.project) if form else [],
        error=error,
        secret=secret,
        token=token,  # the token with the shown secret
        old=old,  # the token that the new one replaces
        use_key=read_use_key(token, visit.now) if token else "",
        kinds=TokenKind,
        scopes=tuple(sorted(SCOPES - {TOKENS_WRITE})),
        overlaps=OVERLAPS,
    )
    return respond(visit, "tokens/index.html", "tokens/_tokens.html", page)


def find_asked(visit: Visit, verb: str) -> ListedToken | None:
    id = as_id(visit.request.GET.get(verb, ""))
    return queries.find_token(visit.scope.project, id, now=visit.now) if id else None


def use(request: HtmxRequest, token_id: UUID) -> HttpResponse:
    token, now = Token.objects.filter(pk=token_id).first(), server_time.now()
    if token is None:
        raise Http404(f"There is no token {token_id}.")
    key = read_use_key(token, now)
    if is_unchanged(request, key):
        return unchanged()
    return render(request, "tokens/_use.html", {"token": token, "use_key": key, "now": now})


def read_use_key(token: Token, now: datetime) -> str:
    # The key changes with the token's first call.
    return stamp_key(now, str(token.first_used_at))


@takes_form("tokens")
def create(request: HtmxRequest) -> HttpResponse:
    visit, form = begin_visit(request, current="settings"), read_form(request.POST)
    project = visit.scope.find_named(form.project) or visit.scope.only
    try:
        if project is None:
            raise Invalid("/project", "Choose a project.")
        kind, days = form.check()
        agent, account = None, accounts.check_account(form.account)
        if kind == TokenKind.AGENT:
            agent = agents.register(form.agent, project=project, stamp=stamp_of(request))
        token, secret = accounts.issue_token(
            kind,
            project=project,
            agent=agent,
            name=form.name,
            account=account,
            days=days,
            scopes=form.scopes or None,
            manages_tokens=kind == TokenKind.OPERATOR and form.manages_tokens,
            stamp=stamp_of(request),
        )
    except Refusal as refusal:
        return show(visit, error=refusal.detail, form=form, status_code=422)
    return show(visit, secret=secret, token=token)


@takes_form("tokens")
def act(request: HtmxRequest, token_id: UUID, verb: str) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    row = Token.objects.select_related("agent", "project").filter(pk=token_id).first()
    if row is None or verb not in ("rotate", "revoke"):
        raise Http404(f"There is no token {token_id} with such an action.")
    page = reverse("dashboard:tokens")
    if "confirmed" not in request.POST:
        query = visit.scope.params.copy()
        query[verb] = str(token_id)
        return redirect(f"{page}?{query.urlencode()}#asked")
    try:
        if verb == "rotate":
            hours = request.POST.get("overlap", "24")
            overlap = timedelta(hours=int(hours if hours in dict(OVERLAPS) else 24))
            token, secret = tokens.rotate(row, overlap=overlap, stamp=stamp_of(request))
            row.refresh_from_db(fields=["expires_at"])
            # The new secret is shown once.
            return show(visit, secret=secret, token=token, old=row)
        if tokens.revoke(row, stamp=stamp_of(request)):
            messages.success(request, f"{row.prefix}… is revoked. Calls with it are refused.")
        else:
            messages.warning(request, f"{row.prefix}… was revoked before.")
    except Refusal as refusal:
        messages.warning(request, refusal.detail)
    return redirect(page + visit.scope.query)
