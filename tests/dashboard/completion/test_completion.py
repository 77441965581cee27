"""The values that the query boxes offer."""

from datetime import datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.completion.lists import LISTS
from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, DeadLetter, Membership, Project
from ledger.pools import membership
from retries.models import FailurePattern
from tests.dashboard.escalations.test_inbox import escalated
from tests.dashboard.notifications.deliveries import make_channel
from tests.dashboard.seen import html
from tests.dashboard.sessions.conversations import make_busy_session
from tests.dashboard.worked import buried, make_plan, make_task
from tests.factories import make_agent, make_project, send
from tests.retries.operations.worlds import start
from tests.retries.permissions.asking import make_rule as make_permission_rule

pytestmark = pytest.mark.django_db


def complete(browser: Client, **params: str) -> list[tuple[str, str]]:
    answer = browser.get(f"/complete/{params.pop('list', 'tasks')}/", params).json()
    return [(each["term"], each["count"]) for each in answer["options"]]


def test_values_with_their_counts_in_the_list(browser: Client, agent: Agent, now: datetime) -> None:
    make_task("failed", agent=agent, now=now)
    make_task("queued", agent=agent, now=now)
    make_agent("codex")
    make_agent("a b")
    assert complete(browser, key="agent", prefix="CO") == [
        ("agent:coder", "2"),
        ("agent:codex", "0"),
    ]
    assert complete(browser, key="agent", prefix="co", q="state:failed")[0] == ("agent:coder", "1")
    assert complete(browser, key="agent", prefix="a") == [('agent:"a b"', "0")]
    assert complete(browser, key="state", prefix="f") == [("state:failed", "1")]
    assert complete(browser, key="type", prefix="co") == [("type:code", "")]
    pattern = FailurePattern.objects.get()
    assert complete(browser, key="pattern", prefix=pattern.template[:4]) == [
        (f"pattern:{pattern.fingerprint}", "")
    ]
    assert complete(browser, key="changed", prefix="2") == [
        ("changed:24h", ""),
        ("changed:2026-01-01..2026-01-31", ""),
    ]
    assert complete(browser, key="agnet", prefix="x") == []
    for key in LISTS["tasks"].keys:  # every key completes, and nothing that is typed breaks it
        assert complete(browser, key=key, prefix="") or key in NO_VALUES | {"plan", "pool"}, key
        for prefix in ("%", "'\"\\", "\0x%", "x" * 400):
            assert complete(browser, key=key, prefix=prefix, q=prefix) == [], (key, prefix)


# An id is pasted, a key is set by a button, and a project declares the names of values.
NO_VALUES = {"about", "same", "payload.", "result."}
PATHS = {
    "deadletters": "dead-letters",
    "rules": "instructions/standing",
    "deliveries": "settings/deliveries",
    "permission_rules": "settings/permissions",
    "audit": "settings/audit",
}


def test_a_path_completes_to_the_keys_that_the_project_declares(
    browser: Client, agent: Agent
) -> None:
    other = make_project("other")
    for project, keys in (
        (agent.project, ["payload.Order", "payload.order_id", "result.invoice"]),
        (other, ["payload.foreign"]),
    ):
        Project.objects.filter(pk=project.pk).update(search_keys=keys)

    def offer(key: str, prefix: str = "", project: str = "default") -> list[str]:
        return [term for term, _ in complete(browser, key=key, prefix=prefix, project=project)]

    assert offer("payload.") == ["payload.Order:", "payload.order_id:"]
    assert offer("PAYLOAD.", "oRDER_") == ["payload.order_id:"]
    assert offer("result.") == ["result.invoice:"]
    assert offer("payload.", project="other") == ["payload.foreign:"]
    assert offer("payload.", "%") == offer("title.") == []
    user = User.objects.create_user("vera")
    Membership.objects.create(project=agent.project, user=user, role=Role.VIEWER)
    member = Client()
    member.force_login(user)
    assert complete(member, key="payload.") == [("payload.Order:", ""), ("payload.order_id:", "")]
    foreign = {"key": "payload.", "project": "other"}
    assert member.get("/complete/tasks/", foreign).status_code == 404


@pytest.mark.parametrize("noun", LISTS)
def test_what_a_list_offers_is_understood_by_it(
    browser: Client, agent: Agent, now: datetime, noun: str
) -> None:
    """Every key has values, also with a name that needs quotes, and none of them is a problem."""
    codex = make_agent("codex two")
    make_plan("03-01", [("Ledger", [])], now=now, agent=codex)
    make_busy_session(agent, now=now)
    send(codex, actor=Actor("user", "1", "mara l"), now=now)
    escalated(codex, "Import", "no disk", now=now)
    buried(agent=agent, now=now)
    start("dead_letter.dismiss", DeadLetter.objects.order_by("id"), now=now)
    make_channel(project=agent.project, now=now)
    make_permission_rule(agent, "npm test", now=now)
    other = make_project("other")
    make_agent("foreign", project=other)
    make_channel("foreign", project=other, now=now)
    for name, member in (("all", codex), ("foreign pool", Agent.objects.get(name="foreign"))):
        membership.create(name, members=[member], project=member.project, stamp=Stamp(SYSTEM, now))
    for key in LISTS[noun].keys:
        offered = complete(browser, list=noun, key=key, prefix="", project="default")
        assert offered or key in NO_VALUES, key
        for term, _ in offered:
            assert term.startswith(f"{key}:") and "foreign" not in term
            page = html(browser.get(f"/{PATHS.get(noun, noun)}/", {"q": term}))
            assert 'class="listing__note hint hint--err"' not in page, term
        for prefix in ("%", "'\"\\", "\0x%", "x" * 400):
            assert complete(browser, list=noun, key=key, prefix=prefix, q=prefix) == [], key
    if "agent" in LISTS[noun].keys:
        terms = [term for term, _ in complete(browser, list=noun, key="agent", prefix="CODEX")]
        assert terms == ['agent:"codex two"']
