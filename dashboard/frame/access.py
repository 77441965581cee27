"""Restrict each page and action to those who may use it: no view, and no template, has to ask.

`dashboard.urls` declares each with its permission, and `permissions.may` decides, in the project
that `dashboard.frame.project_access` finds.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.apps import apps
from django.contrib import messages
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import DEFAULT_DB_ALIAS
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from dashboard.frame import browser_uses
from dashboard.frame.project_access import as_project, set_project
from dashboard.frame.replica import SAFE, read_page
from dashboard.lists.shared_queries import PROJECTS_SHOWN
from ledger.authorization.permissions import ENTER, ROLES, may, read_roles, roles_of
from ledger.authorization.roles import Role, role_needed
from ledger.database import sql
from ledger.models import Preference, Project

P = ParamSpec("P")
UNSENT = (
    "You were signed out, so the form was not sent and nothing was changed. Sign in, then send it."
)
TEXT = "text/plain; charset=utf-8"
COLUMNS = [field.attname for field in User._meta.concrete_fields]
USER = f"""select {", ".join(f"u.{name}" for name in COLUMNS)}, r.*, f.*,
        p.theme, p.time_zone, coalesce(p.hides_first_steps, false) as hides_first_steps,
        coalesce(p.list_columns, '{{}}'::jsonb) as list_columns
    from {User._meta.db_table} u
    left join {Preference._meta.db_table} p on p.user_id = u.id
    cross join lateral ({ROLES(user="u.id")}) r
    cross join lateral (
        select array_agg(p.id order by p.name) as first_ids,
            array_agg(p.name order by p.name) as first_names
        from (
            select id, name from {Project._meta.db_table} where u.is_superuser
            order by name limit {PROJECTS_SHOWN}
        ) p
    ) f where u.id = %(id)s"""


class People(ModelBackend):
    """Django's accounts with their roles, read by one statement because every poll needs it.

    Superusers have no roles: they come with the first projects of all.
    """

    def get_user(self, user_id: int) -> User | None:
        for row in sql.run(USER, id=user_id):
            user: Any = User.from_db(DEFAULT_DB_ALIAS, COLUMNS, [row[name] for name in COLUMNS])
            user.theme, user.time_zone = row["theme"], row["time_zone"]
            user.hides_first_steps = row["hides_first_steps"]
            user.list_columns = row["list_columns"]
            user.project_roles = read_roles(row)
            names = zip(row["first_ids"] or (), row["first_names"] or (), strict=True)
            user.first_projects = [as_project(*each) for each in names]
            return user if self.user_can_authenticate(user) else None
        return None


View = Callable[..., HttpResponseBase]
FormView = Callable[Concatenate[Any, P], HttpResponseBase]


def may_enter(user: AbstractBaseUser | AnonymousUser) -> bool:
    return may(user, ENTER)


def may_open(user: AbstractBaseUser | AnonymousUser, name: str) -> bool:
    """Return whether a user may use the URL pattern with this name, in the page's project."""
    project = getattr(user, "page_project", None)
    return may(user, PAGES[name].permission, project.pk if project else None)


def may_use(request: HttpRequest, name: str) -> bool:
    # A page may ask for each of its rows, so the request keeps the answers.
    known: dict[str, bool] = vars(request).setdefault("known_permissions", {})
    if name not in known:
        known[name] = may_open(request.user, name)
    return known[name]


def describe_missing(user: AbstractBaseUser | AnonymousUser, names: Collection[str]) -> str:
    """Return why a user may not use some of these URL patterns; empty if they may use all."""
    verbs = dict.fromkeys(PAGES[name].permission for name in names if not may_open(user, name))
    return explain_missing(user, verbs) if verbs else ""


def explain_missing(user: Any, verbs: Collection[str]) -> str:
    """Return in one sentence what an account lacks, and who can change it."""
    project = getattr(user, "page_project", None)
    roles = {
        each.role for each in roles_of(user) if project is None or each.project_id == project.pk
    }
    if roles and all(map(role_needed, verbs)):
        reads = roles == {Role.VIEWER} and not any(".view_" in verb for verb in verbs)
        can = "can only read" if reads else "does not include this"
        return f"Your role in this project {can}; an admin of the project can change it."
    # Only accounts without a role were given permissions by their names.
    names = " and ".join(f"“{describe_permission(verb)}”" for verb in verbs)
    return (
        f"Your account does not have the permission {names}; "
        "an administrator can grant it in the admin, under Users."
    )


def describe_permission(verb: str) -> str:
    """Return a permission as the admin lists it.

    >>> describe_permission("ledger.change_task")
    'Can change task'
    """
    app, _, codename = verb.partition(".")
    action, _, model = codename.partition("_")
    return f"Can {action} {apps.get_model(app, model)._meta.verbose_name}"


@dataclass(frozen=True, slots=True)
class Page:
    """A page or an action: what it needs, and whether it may read the replica."""

    permission: str
    may_read_replica: bool


# keyed by the name of the URL pattern
PAGES: dict[str, Page] = {}


def declare(
    methods: list[str],
    address: str,
    view: View,
    name: str,
    permission: str,
    *,
    replica: bool = False,
) -> URLPattern:
    """Return the URL pattern of a page or an action, guarded by its permission."""
    PAGES[name] = Page(permission, replica)
    return path(address, require_http_methods(methods)(guard(view, PAGES[name])), name=name)


page = partial(declare, ["GET", "HEAD"])
form = partial(declare, ["GET", "HEAD", "POST"])
action = partial(declare, ["POST"])


def list_pages(
    address: str, index: View, export: View, name: str, permission: str, *, replica: bool = False
) -> list[URLPattern]:
    exports = f"{address}export/<slug:form>/"
    return [
        page(address, index, name, permission, replica=replica),
        page(exports, export, f"{name}_export", permission, replica=replica),
    ]


def guard(view: View, page: Page) -> View:
    """Refuse users without the page's permission, and redirect strangers to sign in."""

    @wraps(view)
    def guarded(request: Any, /, *args: Any, **kwargs: Any) -> HttpResponseBase:
        by_script = request.headers.get("HX-Request") == "true"
        response: HttpResponseBase
        if may_enter(request.user):
            try:
                set_project(request, page.permission)
            except PermissionDenied:
                response = refuse(request, page.permission, by_script=by_script)
            else:
                browser_uses.note_use(request)
                answer = partial(view, request, *args, **kwargs)
                # The page shows times in the person's zone.
                with timezone.override(zone_of(request.user)):
                    response = read_page(request, answer) if page.may_read_replica else answer()
        # A script gets a line of text, so that no sign-in form lands in a page.
        elif by_script:
            response = HttpResponse("You are signed out.", status=401, content_type=TEXT)
        else:
            response = ask_to_sign_in(request)
        add_never_cache_headers(response)
        return response

    return guarded


def takes_form(page: str, *arguments: str) -> Callable[[FormView[P]], FormView[P]]:
    """Make a view of a form that may answer with a page instead of a redirect."""

    # Links and polls of such an answer go to the form's own address, and people reload it. Opening
    # that address redirects to `page`, a URL's name with these arguments of the form's URL.
    def decorate(view: FormView[P]) -> FormView[P]:
        @wraps(view)
        def answer(request: Any, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if request.method == "POST":
                return view(request, *args, **kwargs)
            own = {name: kwargs[name] for name in arguments}
            query = request.GET.urlencode()
            address = reverse(f"dashboard:{page}", kwargs=own)
            return redirect(f"{address}?{query}" if query else address)

        return answer

    return decorate


def ask_to_sign_in(request: HttpRequest) -> HttpResponse:
    target = request.get_full_path()
    if request.method not in SAFE:
        # The form was not sent: the person returns to its page.
        messages.warning(request, UNSENT)
        page = request.headers.get("Referer", "")
        if url_has_allowed_host_and_scheme(page, allowed_hosts={request.get_host()}):
            target = f"/{'/'.join(page.split('/')[3:])}"
    return redirect_to_login(target)


def zone_of(user: Any) -> ZoneInfo | None:
    """Return the time zone that a person chose for the pages, or None for UTC."""
    try:
        return ZoneInfo(user.time_zone) if user.time_zone else None
    except (ZoneInfoNotFoundError, ValueError):  # the system no longer knows it
        return None


def refuse(request: HttpRequest, verb: str, *, by_script: bool) -> HttpResponse:
    why = f"{explain_missing(request.user, [verb])} Nothing was changed."
    if by_script:
        return HttpResponse(why, status=403, content_type=TEXT)
    return render(request, "403.html", {"why": why}, status=403)
