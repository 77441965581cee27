"""Restrict each page and action to those who may use it; views check this, never templates.

`REQUIRED` lists what each URL needs, and `ledger.authorization.permissions.may` decides, in the project that
`dashboard.frame.project_access` finds.
"""

from collections.abc import Callable, Collection
from functools import wraps
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
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from dashboard.frame import browser_uses
from dashboard.frame.project_access import as_project, set_project
from dashboard.frame.replica import SAFE, read_page
from dashboard.lists.shared_queries import PROJECTS_SHOWN
from ledger.authorization.permissions import ENTER, ROLES, may, read_roles
from ledger.authorization.roles import role_needed
from ledger.database import sql
from ledger.models import Preference, Project

P = ParamSpec("P")
UNSENT = (
    "You were signed out, so the form was not sent and nothing was changed. Sign in, then send it."
)
TEXT = "text/plain; charset=utf-8"
COLUMNS = [field.attname for field in User._meta.concrete_fields]
USER = f"""select {", ".join(f"u.{name}" for name in COLUMNS)}, r.*, f.*,
        p.theme, p.time_zone, coalesce(p.hides_first_steps, false) as hides_first_steps
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


# the verb that each URL pattern needs, by its name
REQUIRED = {
    "home": "ledger.view_event",
    "first_steps": ENTER,
    "search": ENTER,
    "complete": ENTER,
    "view_save": "ledger.add_savedview",
    "view_delete": "ledger.delete_savedview",
    "settings": ENTER,
    "policies": "retries.view_retrypolicy",
    "policy_switch": "retries.change_retrypolicy",
    "people": "ledger.view_membership",
    "member_act": "ledger.change_membership",
    "invite": "ledger.add_invitation",
    "invitation_revoke": "ledger.change_invitation",
    "invitation_again": "ledger.add_invitation",
    "browsers_end_person": "ledger.change_membership",
    "browser_end": ENTER,
    "browsers_end_others": ENTER,
    "tokens": "ledger.view_token",
    "token_new": "ledger.add_token",
    "token_use": "ledger.add_token",
    "token_act": "ledger.change_token",
    "profile": ENTER,
    "profile_save": ENTER,
    "profile_password": ENTER,
    "activity": "ledger.view_event",
    "activity_export": "ledger.view_event",
    "instructions": "ledger.view_instruction",
    "instructions_export": "ledger.view_instruction",
    "instruction": "ledger.view_instruction",
    "instruction_new": "ledger.add_instruction",
    "instruction_act": "ledger.change_instruction",
    "instruction_edit": "ledger.change_instruction",
    "rules": "ledger.view_standinginstruction",
    "rules_export": "ledger.view_standinginstruction",
    "rule": "ledger.view_standinginstruction",
    "rule_new": "ledger.add_standinginstruction",
    "rule_edit": "ledger.change_standinginstruction",
    "rule_act": "ledger.change_standinginstruction",
    "tasks": "ledger.view_task",
    "tasks_export": "ledger.view_task",
    "task": "ledger.view_task",
    "task_contexts": "ledger.view_task",
    "task_act": "ledger.change_task",
    "plans": "ledger.view_plan",
    "plans_export": "ledger.view_plan",
    "plan": "ledger.view_plan",
    "plan_by_ref": "ledger.view_plan",
    "plan_summary": "ledger.view_plan",
    "plan_import": "ledger.add_plan",
    "plan_commands": "ledger.change_plan",
    "plan_act": "ledger.change_plan",
    "deadletters": "ledger.view_deadletter",
    "deadletters_export": "ledger.view_deadletter",
    "deadletter": "ledger.view_deadletter",
    "deadletter_act": "ledger.change_deadletter",
    "patterns": "retries.view_failurepattern",
    "patterns_export": "retries.view_failurepattern",
    "pattern": "retries.view_failurepattern",
    "pattern_act": "retries.change_failurepattern",
    "pattern_fix": "retries.change_failurepattern",
    "patterns_act": "retries.change_failurepattern",
    "agents": "ledger.view_agent",
    "agents_export": "ledger.view_agent",
    "agent": "ledger.view_agent",
    "agent_act": "ledger.change_agent",
    "sessions": "ledger.view_session",
    "sessions_export": "ledger.view_session",
    "session": "ledger.view_session",
    "session_message": "ledger.view_session",
    "session_task": "ledger.add_task",
    "session_flush": "ledger.change_session",
    "session_retry": "ledger.change_session",
    "session_import": "ledger.add_session",
    "connect": "ledger.view_agent",
    "connect_token": "ledger.add_token",
    "connect_light": "ledger.add_token",
    "insight": "retries.view_contextexperiment",
    "experiment_start": "retries.add_contextexperiment",
    "target_set": "retries.change_acktarget",
    "experiment_end": "retries.change_contextexperiment",
    "audit": "ledger.view_event",
    "audit_export": "ledger.view_event",
    "operations": "retries.view_operation",
    "operations_export": "retries.view_operation",
    "operation": "retries.view_operation",
    "operation_new": "retries.add_operation",
    "operation_act": "retries.change_operation",
    "notifications": "retries.view_channel",
    "notification_preview": "retries.view_notificationrule",
    "notification_rule": "retries.change_notificationrule",
    "notification_rule_preview": "retries.change_notificationrule",
    "notification_example": "retries.change_notificationrule",
    "notification_rule_example": "retries.change_notificationrule",
    "notification_rule_check": "retries.change_notificationrule",
    "notification_rule_act": "retries.change_notificationrule",
    "notification_channel": "retries.change_channel",
    "notification_channel_act": "retries.change_channel",
    "notification_quiet": ENTER,
    "deliveries": "retries.view_delivery",
    "deliveries_export": "retries.view_delivery",
    "deliveries_redeliver": "retries.change_delivery",
    "escalations": "retries.view_escalation",
    "escalations_export": "retries.view_escalation",
    "escalation": "retries.view_escalation",
    "escalation_preview": "retries.view_escalation",
    "escalation_answer": "retries.change_escalation",
    "escalation_undo": "retries.change_escalation",
    "escalation_comment": "retries.change_escalation",
    "escalation_assign": "retries.change_escalation",
    "escalation_snooze": "retries.change_escalation",
    "escalations_answer_all": "retries.change_escalation",
    "escalations_undo_all": "retries.change_escalation",
}


class People(ModelBackend):
    """Django's accounts with their roles, read by one statement because every poll needs it.

    Superusers have no roles: they come with the first projects of all.
    """

    def get_user(self, user_id: int) -> User | None:
        for row in sql.run(USER, id=user_id):
            user: Any = User.from_db(DEFAULT_DB_ALIAS, COLUMNS, [row[name] for name in COLUMNS])
            user.theme, user.time_zone = row["theme"], row["time_zone"]
            user.hides_first_steps = row["hides_first_steps"]
            user.project_roles = read_roles(row)
            names = zip(row["first_ids"] or (), row["first_names"] or (), strict=True)
            user.first_projects = [as_project(*each) for each in names]
            return user if self.user_can_authenticate(user) else None
        return None


View = Callable[Concatenate[Any, P], HttpResponseBase]


def may_enter(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether a user may sign in."""
    return may(user, ENTER)


def may_open(user: AbstractBaseUser | AnonymousUser, name: str) -> bool:
    """Return whether a user may use the URL pattern with this name, in the page's project."""
    project = getattr(user, "page_project", None)
    return may(user, REQUIRED[name], project.pk if project else None)


def may_use(request: HttpRequest, name: str) -> bool:
    """Return what `may_open` does for the person of a request, which may ask it for each row."""
    known: dict[str, bool] = vars(request).setdefault("known_permissions", {})
    if name not in known:
        known[name] = may_open(request.user, name)
    return known[name]


def describe_missing(user: AbstractBaseUser | AnonymousUser, names: Collection[str]) -> list[str]:
    """Return the permissions that a user lacks for the URL patterns with these names."""
    verbs = dict.fromkeys(REQUIRED[name] for name in names if not may_open(user, name))
    return [describe_permission(verb) for verb in verbs]


def describe_permission(verb: str) -> str:
    """Return a permission as the admin lists it.

    >>> describe_permission("ledger.change_task")
    'Can change task'
    """
    app, _, codename = verb.partition(".")
    action, _, model = codename.partition("_")
    return f"Can {action} {apps.get_model(app, model)._meta.verbose_name}"


def operators_only(view: View[P]) -> View[P]:
    """Refuse users without the URL's permission, and redirect strangers to sign in.

    A script gets a line of text instead, so that no form lands in a page.
    """

    @wraps(view)
    def guarded(request: Any, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        by_script = request.headers.get("HX-Request") == "true"
        verb = REQUIRED[request.resolver_match.url_name]
        response: HttpResponseBase
        if may_enter(request.user):
            try:
                set_project(request, verb)
            except PermissionDenied:
                response = refuse(request, verb, by_script=by_script)
            else:
                browser_uses.note_use(request)
                with timezone.override(zone_of(request.user)):
                    response = read_page(request, lambda: view(request, *args, **kwargs))
        elif by_script:
            response = HttpResponse("You are signed out.", status=401, content_type=TEXT)
        else:
            response = ask_to_sign_in(request)
        add_never_cache_headers(response)
        return response

    return guarded


def takes_form(page: str, *arguments: str) -> Callable[[View[P]], View[P]]:
    """Make a view of a form that may answer with a page instead of a redirect.

    The links and polls of such an answer lead to the form's own address, and people reload it:
    a person who opens it gets `page`, a URL's name with these arguments of the form's URL.
    """

    def decorate(view: View[P]) -> View[P]:
        @wraps(view)
        def answer(request: Any, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if request.method == "POST":
                return view(request, *args, **kwargs)
            own = {name: kwargs[name] for name in arguments}
            query = request.GET.urlencode()
            address = reverse(f"dashboard:{page}", kwargs=own)
            return redirect(f"{address}?{query}" if query else address)

        return require_http_methods(["GET", "HEAD", "POST"])(operators_only(answer))

    return decorate


def ask_to_sign_in(request: HttpRequest) -> HttpResponse:
    """Send a stranger to sign in and back, and those whose form was not sent to its page."""
    target = request.get_full_path()
    if request.method not in SAFE:
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
    """Return the page that says which permission is missing and how to get it."""
    missing, role = describe_permission(verb), role_needed(verb)
    if by_script:
        text = f"You need the permission “{missing}”. Nothing was changed."
        return HttpResponse(text, status=403, content_type=TEXT)
    context = {"missing": missing, "role": role.label if role else ""}
    return render(request, "403.html", context, status=403)
