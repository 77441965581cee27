"""Walk every page and action as every role, as strangers, and as members elsewhere.

A new page or action fails here until it is entered in `NEEDS`.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import reverse

from dashboard.frame.access import PAGES
from dashboard.urls import urlpatterns
from ledger.authorization.permissions import ENTER, may, projects_where
from ledger.authorization.roles import Role
from ledger.database import optional_cache
from ledger.models import Agent, Membership, Project
from tests.access_world import MARK, World, list_changes, make_world, read_rows
from tests.dashboard.conftest import PART
from tests.factories import make_agent, make_project

# every page and action by the lowest role that may use it
NEEDS: Mapping[Role, tuple[str, ...]] = {
    Role.VIEWER: (
        *("home", "first_steps", "search", "complete", "settings", "policies", "people"),
        *("browsers_end_others", "profile", "profile_save", "profile_password"),
        *("activity", "activity_export", "instructions", "instructions_export"),
        *("instruction", "rules", "rules_export", "rule", "tasks", "tasks_export", "task"),
        *("task_contexts", "task_output", "task_spans", "plans", "plans_export", "plan"),
        "plan_by_ref",
        *("plan_summary", "deadletters", "deadletters_export", "deadletter", "patterns"),
        *("patterns_export", "pattern", "agents", "agents_export", "agent", "sessions"),
        *("sessions_export", "session", "session_message", "connect", "insight", "insight_export"),
        *("audit", "limits", "budgets", "pools", "pool", "task_types", "list_columns"),
        *("audit_export", "operations", "operations_export", "operation"),
        *("notifications", "on_call"),
        *("permission_rules", "permission_rules_export", "permission_rule"),
        *("notification_preview", "notification_quiet", "deliveries", "deliveries_export"),
        *("escalations", "escalations_export", "escalation", "escalation_preview"),
    ),
    Role.OPERATOR: (
        *(
            "view_save",
            "view_delete",
            "marker_delete",
            "tokens",
            "instruction_new",
            "instruction_act",
        ),
        *(
            "instruction_edit",
            "rule_new",
            "rule_edit",
            "rule_act",
            "task_act",
            "task_retry",
            "task_new",
            "task_type_act",
        ),
        *("plan_import", "plan_commands", "plan_act", "deadletter_act", "pattern_act"),
        *("pattern_fix", "patterns_act", "agent_act", "session_task", "session_flush"),
        *("agent_stop", "agent_stop_undo", "pool_new", "pool_act"),
        *("permission_rule_new", "permission_rule_dismiss", "permission_rule_act"),
        *("session_retry", "session_import", "operation_new", "operation_act"),
        *("notification_rule", "notification_rule_preview", "notification_example"),
        *("notification_rule_example", "notification_rule_check"),
        *("notification_rule_act", "deliveries_redeliver", "escalation_answer"),
        *("escalation_undo", "escalation_comment", "escalation_assign"),
        *("escalation_snooze", "escalations_answer_all"),
        *("budget_save", "budget_act", "price_save", "price_remove"),
    ),
    Role.ADMIN: (
        *(
            "policy_switch",
            "policy_reasons",
            "policy_search_keys",
            "member_act",
            "invite",
            "invitation_revoke",
            "token_new",
        ),
        *("invitation_again", "browsers_end_person"),
        *("token_act", "token_use", "connect_token", "connect_light", "experiment_start"),
        *("target_set", "experiment_end", "notification_channel"),
        *("notification_channel_act", "on_call_save", "on_call_delete"),
    ),
}
# one's own, or with the admin's role another member's
OWN = "browser_end"
# a superuser, who is in no project, has to choose one
ASKS_FOR_PROJECT = {
    *("on_call_save", "view_save", "policy_switch", "policy_reasons", "invite", "token_new"),
    "policy_search_keys",
}
# what is for people without an account, too
OPEN = {"sign_in", "sign_out", "join"}
# the verb that the walk asks of each action
VERBS = {
    "instruction_act": "withdraw",
    "rule_act": "pause",
    "permission_rule_act": "revoke",
    "task_act": "skip",
    "plan_act": "pause",
    "deadletter_act": "dismiss",
    "operation_act": "stop",
    "pattern_act": "ignore",
    "pattern_fix": "promote",
    "patterns_act": "ignore",
    "agent_act": "pause",
    "task_type_act": "pause",
    "pool_act": "retry-on",
    "budget_act": "remove",
    "policy_switch": "obey_waits",
    "member_act": "operator",
    "token_act": "rotate",
    "notification_rule_act": "off",
    "on_call_save": "policy",
    "on_call_delete": "policy",
    "notification_channel_act": "off",
}


def list_forms(ids: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the forms of the actions that change nothing with an empty one."""
    return {
        "invite": {"role": "viewer"},
        "browsers_end_person": {"member": str(ids["member_id"])},
        "permission_rule_new": {
            **{"tool": "Bash", "matcher": "npm ci", "verdict": "allow", "agent": ""},
            **{"save": "yes", "tried": "Bash\nnpm ci\nallow\n"},
        },
        "permission_rule_dismiss": {"in": "default", "tool": "Bash", "matcher": "npm run lint"},
        "permission_rule_act": {"confirmed": "yes"},
        "token_new": {"kind": "reader"},
        "budget_save": {"scope": "project", "amount": "9 USD", "period": "day"},
        "price_save": {"model": "own", "input": "1", "output": "2"},
        "token_act": {"confirmed": "yes"},
        "policy_switch": {"scope": "off", "reason": "try"},
        "policy_reasons": {"verb": "task.abort", "reason": "try"},
        "policy_search_keys": {"keys": "payload.order", "reason": "try"},
        "experiment_start": {
            "in": "default",
            "element": "standing",
            "share": "20",
            "reason": "try",
        },
        "target_set": {"subject": f"agent:{ids['agent_id']}", "percent": "95", "within_s": "60"},
        "operation_new": {"id": str(ids["queued_id"]), "confirmed": "yes"},
        "instruction_new": {"agent": "coder", "content": "Look"},
        "instruction_edit": {"agent": "coder", "content": "Look"},
        "escalation_comment": {"text": "seen"},
        "escalation_answer": {"action": "skip", "version": "1"},
        "view_save": {"name": "Mine", "q": "state:retry"},
        "profile_save": {"theme": "dark", "time_zone": "Asia/Tokyo"},
        "first_steps": {"hidden": "yes"},
        "task_act": {"confirmed": "yes"},
        "deadletter_act": {"confirmed": "yes"},
        "agent_stop": {"pause": "yes"},
        "pool_new": {"name": "new"},
        "pool_act": {"retry_on": "same"},
        "task_new": {"project": "default", "type": "code", "agent": "coder", "payload": "{}"},
        "task_type_act": {"type": "code"},
        "list_columns": {"offered": "type", "column": "type"},
        "session_task": {"title": "Do it", "type": "code", "agent": "coder"},
        "on_call_save": {"name": "evenings", "within": "60", "steps": "0 tell role:operator"},
        "on_call_delete": {"confirmed": "yes"},
        "notification_quiet": {"starts": "22:00", "ends": "07:00"},
    }


def path_of(world: World, name: str) -> str:
    """Return the address of a URL pattern."""
    pattern = next(each for each in urlpatterns if each.name == name)
    keys = re.findall(r"<\w+:(\w+)>", str(pattern.pattern))
    own = {key: world.ids.get(key) for key in keys}
    own |= {key: VERBS[name] for key in ("verb", "name") if key in keys}
    if name.startswith("notification") and "rule_id" in own:
        own["rule_id"] = world.ids["notification_rule_id"]
    assert None not in own.values(), (name, own)
    return reverse(f"dashboard:{name}", kwargs=own)


def sign_in(role: str, project: Project | None = None, **flags: bool) -> Client:
    user = User.objects.create_user(f"{role}-{project.name if project else 'none'}", **flags)
    if project:
        Membership.objects.create(user=user, project=project, role=role, added_by="mara")
    client = Client()
    client.force_login(user)
    return client


def call(client: Client, path: str, form: Mapping[str, Any], *, undo: bool = True) -> list[int]:
    """Request a path by GET and by POST; return the statuses of what it takes."""
    codes = []
    for method, data in ((client.get, {}), (client.post, form)):
        with transaction.atomic():
            codes.append(method(path, data).status_code)
            transaction.set_rollback(undo)
    return [code for code in codes if code != 405]


def text_of(response: Any) -> bytes:
    return b"".join(response) if response.streaming else bytes(response.content)


@pytest.fixture
def world(agent: Agent, now: datetime) -> World:
    return make_world(agent, now)


def test_the_table_has_every_page_and_action_once() -> None:
    known = [str(each.name) for each in urlpatterns if each.name not in OPEN]
    entered = [OWN, *chain.from_iterable(NEEDS.values())]
    assert sorted(entered) == sorted(known) == sorted(PAGES)


def test_each_role_opens_its_pages_and_actions_and_no_others(world: World) -> None:
    """A weaker role gets 403 and changes nothing."""
    members = {role: sign_in(role, world.project) for role in Role}
    members |= {"superuser": sign_in("root", is_staff=True, is_superuser=True)}
    forms, wrong = list_forms(world.ids), []
    before = read_rows()
    for needed, names in (*NEEDS.items(), (Role.ADMIN, (OWN,))):
        for name in names:
            path = path_of(world, name)
            for role, client in members.items():
                may = role == "superuser" or Role(role).rank >= needed.rank
                codes = call(client, path, forms.get(name, {}), undo=may)
                script = client.post(path, headers=PART).status_code if not may else 403
                if may:
                    is_right = not {401, 403, 404} & {*codes} or name in ASKS_FOR_PROJECT
                else:
                    is_right = {*codes} == {404 if name == OWN else 403} and script in (
                        403,
                        404,
                        405,
                    )
                if not is_right:
                    wrong.append((name, role, codes, script))
            if changes := list_changes(before):
                wrong.append((name, "changed something", changes))
                before = read_rows()
    assert wrong == []


def test_no_one_from_elsewhere_gets_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers sign in; a member elsewhere gets 404 for every id, also with all figures cached."""
    monkeypatch.setattr(optional_cache, "FRESH_SECONDS", -1)
    monkeypatch.setattr(optional_cache, "WORTH", 10**6)
    elsewhere = make_project("elsewhere")
    foreign_agent = make_agent("foreign", project=elsewhere)
    owner, foreign = sign_in(Role.ADMIN, world.project), sign_in(Role.ADMIN, elsewhere)
    eve = User.objects.get(username="admin-elsewhere")
    gone = sign_in("gone", is_staff=True, is_superuser=True)
    User.objects.filter(username="gone-none").update(is_active=False)
    strangers = {"none": Client(), "no member": sign_in("stranger"), "inactive": gone}
    own = {str(id) for id in world.ids.values() if isinstance(id, UUID)}
    forms, wrong = list_forms(world.ids), []
    before = read_rows()
    for name in PAGES:
        path, form = path_of(world, name), forms.get(name, {})
        call(owner, path, form)  # fills the caches
        for who, client in strangers.items():
            if {*call(client, path, form, undo=False)} != {302}:
                wrong.append((name, who))
            if client.get(path, headers=PART).status_code not in (401, 405):
                wrong.append((name, who, "by a script"))
        named = any(id in path for id in (*own, str(world.ids["ref"])))
        for query in ("", f"?project={world.project.name}", "?project=elsewhere"):
            for method, data in ((foreign.get, {}), (foreign.post, form)):
                response = method(path + query, data)
                text = text_of(response).decode()
                if (named or world.project.name in query) and response.status_code not in (
                    404,
                    405,
                ):
                    wrong.append((name, query, response.status_code))
                leaked = [id for id in own if id in text and id not in f"{path} {form}"]
                if leaked or MARK in text:
                    at = text.find(leaked[0] if leaked else MARK)
                    wrong.append(
                        (name, query, response.status_code, text[max(0, at - 150) : at + 150])
                    )
        changes = list_changes(before, besides=(elsewhere.pk, foreign_agent.pk))
        if changes := [row for row in changes if row[1].get("user_id") != eve.pk]:
            wrong.append((name, "changed something", changes))
            before = read_rows()
    assert wrong == []


def test_may_gives_each_role_what_is_its_own_where_it_is(project: Project) -> None:
    """`may` needs the project, and a role elsewhere gives nothing here."""
    other = make_project("elsewhere")
    user = User.objects.create_user("eve")
    Membership.objects.create(user=user, project=project, role=Role.OPERATOR, added_by="mara")
    assert may(user, ENTER) and may(user, ENTER, project.pk) and not may(user, ENTER, other.pk)
    for verb, allowed in (
        ("ledger.view_task", True),
        ("ledger.change_task", True),
        ("ledger.view_token", True),
        ("ledger.add_token", False),
        ("retries.change_retrypolicy", False),
        ("ledger.add_project", False),
        ("auth.change_user", False),
    ):
        assert may(user, verb, project.pk) is allowed, verb
        assert not may(user, verb, other.pk) and not may(user, verb), verb
        assert projects_where(user, verb) == ({project.pk} if allowed else set()), verb
    user.is_active = False
    assert not may(user, ENTER) and not may(user, "ledger.view_task", project.pk)
