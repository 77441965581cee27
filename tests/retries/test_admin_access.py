"""Walk every page and action of the admin as every role, as strangers, and as staff elsewhere.

A new model or action fails here until it is entered in `ACTIONS`.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from ledger.admin_pages.lists import ReadOnly
from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Membership, Project
from retries.failures.fixes import verdicts as fix_verdicts
from retries.models import FailurePattern
from retries.states import Verdict
from tests.access_world import MARK, World, list_changes, make_world, read_rows
from tests.factories import make_project

pytestmark = pytest.mark.django_db

# the actions of each model's page, by the role that a member of the staff needs for them
ACTIONS: Mapping[Role, Mapping[str, tuple[str, ...]]] = {
    Role.OPERATOR: {
        "ledger.standinginstruction": ("pause", "resume", "retire"),
        "ledger.task": ("retry_now", "unblock", "skip", "abort"),
        "ledger.plan": ("pause", "resume", "abort", "restart"),
        "ledger.deadletter": ("replay", "dismiss"),
        "ledger.breaker": ("trip_breaker", "keep_breaker_open", "reset_breaker"),
        "ledger.agent": (
            *("pause", "resume", "limit", "set_account", "brief", "reset"),
            *("trip_breaker", "keep_breaker_open", "reset_breaker"),
        ),
        "ledger.instruction": ("send_again", "acknowledge", "cancel"),
        "retries.escalation": ("answer_question", "fix", "retry", "skip", "allow", "deny", "abort"),
        "retries.failurepattern": ("resolve", "ignore", "reopen", "retry"),
        "retries.fixverdict": ("promote", "retire", "reset"),
        "retries.delivery": ("redeliver",),
        "retries.operation": ("undo", "stop"),
        "retries.permissionrule": ("revoke",),
    },
    Role.ADMIN: {"ledger.token": ("revoke",)},
}
# pages without actions
SHOWN = {
    *("ledger.event", "ledger.attempt", "ledger.failure", "ledger.taskhistory"),
    *("ledger.session", "ledger.message", "ledger.sessiontask"),
    *("retries.channel", "retries.notificationrule", "retries.retrypolicy"),
    *("retries.permissionrequest", "retries.rota", "retries.escalationpolicy"),
}
# pages of what belongs to the instance, which no role opens
INSTANCE = {
    *("ledger.project", "ledger.clockrun", "retries.quiethours"),
    *("auth.user", "auth.group", "account.emailaddress"),
    *("socialaccount.socialapp", "socialaccount.socialtoken", "socialaccount.socialaccount"),
}


def sign_in(role: str, project: Project | None = None, **flags: bool) -> Client:
    user = User.objects.create_user(f"{role}-{project.name if project else 'none'}", **flags)
    if project:
        Membership.objects.create(user=user, project=project, role=role, added_by="mara")
    client = Client()
    client.force_login(user)
    return client


def path_of(model: type[Model], rest: str = "") -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/{rest}"


def post(client: Client, path: str, data: dict[str, Any], *, undo: bool) -> int:
    with transaction.atomic():
        status = client.post(path, data).status_code
        transaction.set_rollback(undo)
    return status


@pytest.fixture
def world(agent: Agent) -> World:
    """One of everything, and a verdict about its fix: the API's walk needs a fix without one."""
    world, now = make_world(agent, timezone.now()), timezone.now()
    pattern, fix = FailurePattern.objects.get(pk=world.ids["pattern_id"]), world.ids["fix"]
    chosen = {"signature": fix["signature"], "key": fix["key"]}
    stamp = Stamp(SYSTEM, now)
    fix_verdicts.judge(pattern, **chosen, verdict=Verdict.PROMOTED, note=MARK, stamp=stamp)
    return world


def test_the_table_has_every_model_and_action() -> None:
    known = {
        model._meta.label_lower: tuple(page.actions)
        for model, page in admin.site._registry.items()
        if isinstance(page, ReadOnly) and page.actions
    }
    assert {**ACTIONS[Role.OPERATOR], **ACTIONS[Role.ADMIN]} == known
    pages = {model._meta.label_lower for model in admin.site._registry}
    assert pages == known.keys() | SHOWN | INSTANCE


def test_each_role_of_the_staff_acts_on_its_rows_and_no_others(world: World) -> None:
    """Others are refused, in the list and on a row's page, and nothing changes."""
    needs = {name: role for role, models in ACTIONS.items() for name in models}
    callers: dict[str, Client] = {
        role: sign_in(role, world.project, is_staff=True) for role in Role
    }
    callers["superuser"] = sign_in("root", is_staff=True, is_superuser=True)
    callers["elsewhere"] = sign_in(Role.ADMIN, make_project("elsewhere"), is_staff=True)
    wrong: list[object] = []
    before = read_rows()
    for model, page in admin.site._registry.items():
        name, row = model._meta.label_lower, model._default_manager.order_by("pk").first()
        needed = needs.get(name)
        if needed is None:
            continue
        assert row, f"the world has no {name}"
        for action in page.actions:
            data = {"action": str(action), "confirmed": "yes", "fix": "Try again"}
            chosen = data | {"_selected_action": str(row.pk)}
            for who, client in callers.items():
                may = who == "superuser" or (who in list(Role) and Role(who).rank >= needed.rank)
                in_list = post(client, path_of(model), chosen, undo=may)
                on_page = post(client, path_of(model, f"{row.pk}/change/"), data, undo=may)
                if (in_list == 302) is not may and who != "elsewhere":
                    wrong.append((name, who, action, "in the list", in_list))
                if (on_page == 302) is not may:
                    wrong.append((name, who, action, "on the page", on_page))
        if changes := list_changes(before):
            wrong.append((name, "changed something", changes))
            before = read_rows()
    assert wrong == []


def test_no_one_else_gets_into_the_admin(world: World) -> None:
    """Strangers sign in, and staff see no row of another project and can neither add nor delete."""
    elsewhere = make_project("elsewhere")
    strangers = {
        "no one": Client(),
        "member": sign_in(Role.ADMIN, world.project),
        "staff of no project": sign_in("staff", is_staff=True),
        "elsewhere": sign_in(Role.ADMIN, elsewhere, is_staff=True),
    }
    viewer = sign_in(Role.VIEWER, world.project, is_staff=True)
    wrong: list[object] = []
    before = read_rows()
    for model in admin.site._registry:
        name, row = model._meta.label_lower, model._default_manager.order_by("pk").first()
        rest = [f"{row.pk}/change/", f"{row.pk}/delete/", f"{row.pk}/history/"] if row else []
        for who, client in strangers.items():
            for each in ("", *rest):
                page = client.get(path_of(model, each))
                is_own = who == "elsewhere" and not each and name not in INSTANCE
                if MARK in page.content.decode() or page.status_code not in (
                    (200,) if is_own else (302, 403)
                ):
                    wrong.append((name, who, each, page.status_code))
        for who, client in {**strangers, "viewer": viewer}.items():
            for each in ("add/", *rest[:2]):
                code = post(client, path_of(model, each), {"post": "yes"}, undo=False)
                if code not in (302, 403):
                    wrong.append((name, who, each, code))
        if name in INSTANCE and viewer.get(path_of(model)).status_code != 403:
            wrong.append((name, "viewer", "sees what belongs to the instance"))
        if changes := list_changes(before):
            wrong.append((name, "changed something", changes))
            before = read_rows()
    assert wrong == []
