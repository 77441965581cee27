"""A list names the nearest values of unknown ones in its query, with all other terms kept."""

import re
from collections.abc import Callable
from datetime import datetime
from urllib.parse import unquote_plus

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from dashboard.lists import known_names
from ledger.authorization.roles import Role
from ledger.journal import Actor, Stamp
from ledger.models import Agent, DeadLetter, Membership
from retries.escalations import assignment
from retries.models import Escalation, FailurePattern
from tests.dashboard.escalations.test_inbox import escalated
from tests.dashboard.notifications.deliveries import make_channel, make_delivery
from tests.dashboard.seen import html
from tests.dashboard.sessions.conversations import make_busy_session
from tests.dashboard.worked import buried, make_plan
from tests.factories import make_agent, make_project, make_token, send
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.operations.worlds import start

pytestmark = pytest.mark.django_db

AUDIT, RULES, DELIVERIES = "/settings/audit/", "/instructions/standing/", "/settings/deliveries/"
OPERATIONS = "/operations/"
TASKS, LETTERS, INBOX = "/tasks/", "/dead-letters/", "/escalations/"
ANY, NOTHING = "any of several suggestions", "no suggestion"
SENT, PLANS, PATTERNS, SESSIONS = "/instructions/", "/plans/", "/patterns/", "/sessions/"
NEAREST = (  # path, query, a link's term, and its address
    (TASKS, "state:failed agent:codr", "agent:coder", "q=state:failed agent:coder"),
    (TASKS, "agent:CODR,x -agent:y", "agent:coder", "q=agent:coder,x -agent:y"),
    (TASKS, "agent:codex-two", 'agent:"codex two"', 'q=agent:"codex two"'),
    (TASKS, "plan:03-02", "plan:03-01", "q=plan:03-01"),
    (TASKS, "type:coed", "type:code", "q=type:code"),
    (SENT, "from:maar", "from:mara", "q=from:mara"),
    (SENT, "agent:codr", "agent:coder", "q=agent:coder"),
    (LETTERS, "agent:codr", "agent:coder", "q=agent:coder"),
    (PLANS, "agent:codr", "agent:coder", "q=agent:coder"),
    (PATTERNS, "agent:codr", "agent:coder", "q=agent:coder"),
    (SESSIONS, "agent:codr", "agent:coder", "q=agent:coder"),
    (INBOX, "agent:codr", "agent:coder", "q=agent:coder"),
    (INBOX, "assignee:maar", "assignee:mara", "q=assignee:mara"),
    ("/activity/", "agent:codr", "agent:coder", "q=agent:coder"),
    ("/activity/", "actor:maar", "actor:mara", "q=actor:mara"),
    ("/agents/", "codr", "coder", "q=coder"),
    (TASKS, "agent:CODER", "agent:coder", "q=agent:coder"),
    (TASKS, "error:tiemout", "error:timeout", "q=error:timeout"),
    (LETTERS, "type:coed", "type:code", "q=type:code"),
    (SESSIONS, "task:03-01:tsak-1", "task:03-01:task-1", "q=task:03-01:task-1"),
    (AUDIT, "actor:maar", "actor:mara", "q=actor:mara"),
    (RULES, "agent:codr", "agent:coder", "q=agent:coder"),
    (RULES, "project:defalut", "project:default", "q=project:default"),
    (DELIVERIES, "channel:miror", 'channel:"coder mirror"', 'q=channel:"coder mirror"'),
    (DELIVERIES, "event:task.faild", "event:task.failed", "q=event:task.failed"),
    (TASKS, "pattern:dsik", "pattern:disk", "q=pattern:disk"),
    (INBOX, "type:coed", "type:code", "q=type:code"),
    (INBOX, "error:tiemout", "error:timeout", "q=error:timeout"),
    (PLANS, "plan:03-02", "plan:03-01", "q=plan:03-01"),
    (PATTERNS, "plan:03-02", "plan:03-01", "q=plan:03-01"),
    (PATTERNS, "error:tiemout", "error:timeout", "q=error:timeout"),
    (SENT, "plan:03-02", "plan:03-01", "q=plan:03-01"),
    (SENT, "pattern:dsik", "pattern:disk", "q=pattern:disk"),
    ("/agents/", "agent:codr older:1h", "agent:coder", "q=older:1h agent:coder"),
    (OPERATIONS, "by:maar", "by:mara", "q=by:mara"),
    ("/agents/", "older:1h codr code", "coder", "q=older:1h coder code"),
    ("/agents/", "state:tripped code tesetr", "tester", "q=state:tripped code tester"),
)
UNKNOWN = (  # path, query, the page's text, and a link's address
    (TASKS, "agent:coder,codre", "Unknown agent “codre”.", "agent:coder"),
    (TASKS, "agent:coder,gone -agent:tesetr", "Unknown agent “tesetr”.", ANY),
    (TASKS, "-agent:tesetr", "Unknown agent “tesetr”.", "-agent:tester"),
    (TASKS, "agent:coder -agent:CODER", "Unknown agent “CODER”.", "agent:coder -agent:coder"),
    (TASKS, "plan:03-01,03-07", "Unknown plan “03-07”.", "plan:03-01"),
    (TASKS, "type:code,coed", "No recent row has “type:coed”.", "type:code"),
    (TASKS, "pattern:disk,dsik", "Unknown pattern “dsik”.", "pattern:disk"),
    (
        TASKS,
        "error:disk,tiemout",
        "“tiemout” is not a failure type; it is searched as a word.",
        "error:disk,timeout",
    ),
    (SENT, "from:mara,maar", "No recent row has “from:maar”.", "from:mara"),
    (SENT, "agent:coder,codre", "Unknown agent “codre”.", "agent:coder"),
    (LETTERS, "agent:coder,codre", "Unknown agent “codre”.", "agent:coder"),
    (LETTERS, "type:code,coed", "No recent row has “type:coed”.", "type:code"),
    (LETTERS, "-reason:max_retires", "No recent row has “reason:max_retires”.", ANY),
    (PLANS, "agent:coder,codre", "Unknown agent “codre”.", "agent:coder"),
    (PATTERNS, "agent:coder,codre", "Unknown agent “codre”.", "agent:coder"),
    (PATTERNS, "pattern:disk,dsik", "Unknown pattern “dsik”.", "pattern:disk"),
    (INBOX, "-pattern:xqz", "Unknown pattern “xqz”.", NOTHING),
    (SESSIONS, "agent:coder,codre", "Unknown agent “codre”.", "agent:coder"),
    (INBOX, "agent:coder,codre", "Unknown agent “codre”.", "agent:coder"),
    (INBOX, "assignee:none,maar", "Unknown assignee “maar”.", "assignee:none,mara"),
    ("/activity/", "agent:coder,codre", "Unknown agent “codre”.", "agent:coder"),
    ("/activity/", "actor:mara,maar", "No recent row has “actor:maar”.", "actor:mara"),
    (AUDIT, "-actor:maar", "No recent row has “actor:maar”.", "-actor:mara"),
    (RULES, "agent:coder,codre", "Unknown agent “codre”.", "agent:coder"),
    (RULES, "-project:defalut", "Unknown project “defalut”.", "-project:default"),
    (DELIVERIES, "channel:mirror,miror", "Unknown channel “miror”.", ANY),
    ("/agents/", "-agent:tesetr", "Unknown agent “tesetr”.", "-agent:tester"),
    (OPERATIONS, "-by:maar", "No recent row has “by:maar”.", "-by:mara"),
    (SENT, "-type:coed", "No recent row has “type:coed”.", "-type:code"),
    (DELIVERIES, "-event:task.faild", "Unknown event “task.faild”.", "-event:task.failed"),
)


@pytest.fixture
def world(agent: Agent, now: datetime) -> None:
    """Rows of two agents in every list, and an agent in another project."""
    actor = Actor("user", "1", "mara")
    for each in (agent, make_agent("tester")):
        make_plan("03-01" if each is agent else "04-02", [("One", [])], now=now, agent=each)
        make_busy_session(each, now=now)
        send(each, "Run the tests", actor=actor, now=now)
        buried(agent=each, now=now, type="code", error="no disk")
        escalated(each, "Import", "no route", now=now)
        make_rule(agent=each)
        make_delivery(make_channel(f"{each.name} mirror", now=now), now=now)
    every = Escalation.objects.all()
    assignment.assign(every[0].pk, "mara", among=every, stamp=Stamp(actor, now))
    start("dead_letter.dismiss", DeadLetter.objects.order_by("id"), now=now)
    make_agent("codex two", project=make_project("other"))


def suggestions(response: HttpResponse) -> dict[str, str]:
    """Return the suggested terms with the queries that they lead to."""
    found = re.findall(r'<a class="link" href="\?([^"]*)" ><bdi>([^<]+)</bdi>', html(response))
    return {term: unquote_plus(query) for query, term in found}


def test_the_nearest_name_is_a_link(browser: Client, world: None) -> None:
    for path, query, term, leads_to in NEAREST:
        found = suggestions(browser.get(path, {"q": query}))
        assert found.get(term) == leads_to, (path, query)


def test_only_unknown_names_of_the_project_are_replaced(browser: Client, world: None) -> None:
    for query in ("agent:coder nowhere", "agent:qqqqqqqq", "-agent:coder state:aborted"):
        response = browser.get(TASKS, {"q": query})
        assert "No tasks match" in html(response) and suggestions(response) == {}, query
    assert "agent:coder" not in suggestions(
        browser.get(TASKS, {"q": "agent:codr", "project": "other"})
    )


def test_an_unknown_name_beside_known_ones_is_named(browser: Client, world: None) -> None:
    """The list has rows, so nothing else shows that one of the names is wrong."""
    for path, query, text, leads_to in UNKNOWN:
        response = browser.get(path, {"q": query})
        page = html(response)
        assert f"<bdi>{text}</bdi>" in page and 'id="no-match"' not in page, (path, query)
        links = set(suggestions(response).values())
        if leads_to in (ANY, NOTHING):
            assert bool(links) == (leads_to == ANY), (path, query)
        else:
            assert f"q={leads_to}" in links, (path, query)


def test_names_that_exist_are_not_named(browser: Client, world: None) -> None:
    """Of the whole project: not only those that its lists show at the moment."""
    for path, query in (
        (TASKS, "agent:coder,tester -plan:03-01,04-02 error:disk,timeout,route"),
        (TASKS, "pattern:disk,route"),
        (INBOX, "assignee:me,none,mara"),
        (RULES, "agent:coder,tester -project:default"),
        (DELIVERIES, "channel:MIRROR,coder event:task.*,escalation.opened,attempt.failed,test"),
        (SESSIONS, "-task:03-01:task-1"),
        ("/activity/", "actor:mara,tenfour"),
        ("/activity/", "-kind:task,agent"),
    ):
        page = html(browser.get(path, {"q": query}))
        assert "Unknown" not in page and "No recent row" not in page, (path, query)
    elsewhere = html(browser.get(TASKS, {"q": 'agent:coder,"codex two"', "project": "default"}))
    assert "Unknown agent “codex two”." in elsewhere


def test_no_name_is_suggested_for_one_that_exists(
    browser: Client, world: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is older than the newest, or nothing has it now."""
    User.objects.create_superuser("mel")
    monkeypatch.setattr(known_names, "NEWEST", 1)
    for path, query in (
        (INBOX, "assignee:me"),
        (INBOX, "assignee:mel"),
        (INBOX, "pattern:disk state:answered"),
        (TASKS, "plan:03-01 state:aborted"),
        (TASKS, "agent:coder state:aborted"),
        (DELIVERIES, "channel:mirror state:gave-up"),
        (DELIVERIES, "event:task.*"),
        ("/agents/", "state:tripped code"),
    ):
        response = browser.get(path, {"q": query})
        assert "No " in html(response) and suggestions(response) == {}, (path, query)


def test_a_pattern_has_one_name_on_every_list(browser: Client, world: None, agent: Agent) -> None:
    """Its fingerprint, that of a pattern merged into it, and words of its text or example."""
    pattern = FailurePattern.objects.filter(template__icontains="disk").order_by("pk")[0]
    pattern.example = "no disk named lxml"
    pattern.save()
    elsewhere = FailurePattern(
        project=make_project("other"), fingerprint="feed", template="no zebra", example="no zebra"
    )
    merged = FailurePattern(
        project=pattern.project, fingerprint="beef", merged_into=pattern, merged_at=pattern.state_at
    )
    for each in (elsewhere, merged):
        each.first_seen = each.last_seen = each.state_at = each.updated_at = pattern.state_at
        each.save()
    escalated(agent, "Import", "no disk", now=pattern.state_at)
    for path in (TASKS, LETTERS, INBOX, PATTERNS):
        for name in (pattern.fingerprint[:6], "lxml", "beef", "DISK"):
            page = html(browser.get(path, {"q": f"pattern:{name}", "project": "default"}))
            assert 'id="no-match"' not in page and "No matching" not in page, (path, name)
            excluded = browser.get(path, {"q": f"-pattern:{name}", "project": "default"})
            assert "Unknown" not in html(excluded), (path, name)
        excluded = browser.get(path, {"q": "-pattern:zebra", "project": "default"})
        assert "Unknown pattern “zebra”." in html(excluded), path
    terms = browser.get("/complete/tasks/", {"key": "pattern", "prefix": "lxml"}).json()["options"]
    assert [each["term"] for each in terms] == [f"pattern:{pattern.fingerprint}"]


def test_a_viewer_sees_no_names_of_tokens(agent: Agent) -> None:
    """Viewers may not see tokens, not even as a suggestion for a name that does not exist."""
    make_token(project=agent.project, name="deploy-key")
    vera = User.objects.create_user("vera")
    Membership.objects.create(project=agent.project, user=vera, role=Role.VIEWER)
    client = Client()
    client.force_login(vera)
    for path in (SENT, "/activity/", AUDIT):
        key = "from" if path == SENT else "actor"
        for query in (f"{key}:deploy-kee", f"-{key}:deploy-kee"):
            assert "deploy-key" not in html(client.get(path, {"q": query})), (path, query)


def test_hostile_names_stay_text_and_cost_a_few_statements(
    browser: Client, world: None, statements: Callable[..., int]
) -> None:
    hostile = "agent:coder,<script>alert(1)</script> -plan:%,'; type:\\,x error:{0},y pattern:{a},_"
    raw = browser.get(TASKS, {"q": hostile}).content.decode()
    assert "<script>alert" not in raw and "Unknown agent “&lt;script&gt;" in raw
    many = "agent:coder," + ",".join(f"a{number}" for number in range(60))
    few = statements(browser, TASKS, {"q": "agent:coder,a1"})
    assert statements(browser, TASKS, {"q": many}) == few <= 15
    one = statements(browser, TASKS, {"q": "agent:coder"})
    assert few <= one + 2
