"""Limits of accounts over HTTP and on the pages: who says them, who waits, and what people see."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ledger import agents, tokens
from ledger.journal import SYSTEM, Stamp
from ledger.models import AccountWindow, Agent, Event, Project
from tests.conftest import Api
from tests.factories import make_agent, make_project
from tests.ledger.api.test_instructions import problem
from tests.ledger.sessions.test_transcript_limits import (
    api_error,
    rate_limit_info,
    token_count,
    window,
)
from tests.retries.api.calls import enqueue

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def second(agent: Agent) -> Agent:
    return make_agent("second")


def import_lines(api: Api, *lines: Any) -> Any:
    body = "".join(json.dumps(line) + "\n" for line in lines)
    given = {"Content_Type": "application/x-ndjson"}
    return api("POST", "/sessions/import", body.encode(), **given)


def test_a_rollout_stops_the_agents_of_its_account(
    operator: Api, coder: Api, api: Any, second: Agent
) -> None:
    """F07: the newest figure is shown, and an agent that shares the account gets no task."""
    changed = operator("PATCH", "/agents/second", {"account": "coder"}).body
    assert (changed["account"], changed["limits"]) == ("coder", [])
    enqueue(operator, agent="second")
    at = int((timezone.now() + HOUR).timestamp())
    line = token_count(primary=window(42.5, at=at), secondary=window(81.0, 10_080, at))
    assert import_lines(coder, line).status_code == 201
    shown = operator("GET", "/agents/second").body
    limits = [(each["window"], each["used"], each["source"]) for each in shown["limits"]]
    assert limits == [("five_hours", 0.425, "codex"), ("week", 0.81, "codex")]
    assert shown["waits_until"] is None
    later = token_count(primary=window(100, at=at)) | {"timestamp": timezone.now().isoformat()}
    import_lines(coder, line, later)
    import_lines(coder, line)
    shown = operator("GET", "/agents").body["data"]
    assert [row["limits"][0]["used"] for row in shown] == [1, 1]
    empty = api("agent", agent=second)("POST", "/claims").body
    assert (empty["data"], empty["reason"]) == ([], "agent_waits")
    assert empty["waits_until"] == shown[0]["waits_until"] != None  # noqa: E711
    assert 3500 < empty["retry_after_s"] <= 3601


def test_a_transcript_without_a_figure_changes_nothing(coder: Api) -> None:
    assert import_lines(coder, api_error()).status_code == 201
    assert not AccountWindow.objects.exists()


def test_a_client_says_its_limits_with_a_heartbeat(operator: Api, coder: Api) -> None:
    enqueue(operator)
    attempt = coder("POST", "/claims").body["data"][0]["attempt"]["id"]
    path, at = f"/attempts/{attempt}/heartbeat", (timezone.now() + HOUR).isoformat()
    week = {"window": "week", "used": 0.5, "resets_at": at}
    full = {"window": "five_hours", "used": 1, "resets_at": at}
    assert coder("POST", path, {"limits": [week, full]}).status_code == 200
    assert coder("POST", path, {"limits": [{**full, "resets_at": None}]}).status_code == 200
    rows = AccountWindow.objects.order_by("window").values_list("window", "used", "source")
    assert list(rows) == [("five_hours", 1, "client"), ("week", 0.5, "client")]
    # A full window without a reset keeps the one that is known.
    assert Agent.objects.get(name="coder").waits_until > timezone.now()
    for wrong in ({"window": "day"}, {"used": 1.5}, {"used": -1}, {"resets_at": "2026-11-21"}):
        problem(coder("POST", path, {"limits": [week | wrong]}), 422, "validation_error")
    problem(coder("POST", path, {"limits": [week] * 4}), 422, "validation_error")


def test_a_heartbeat_passes_on_the_records_of_the_agents_program(operator: Api, coder: Api) -> None:
    enqueue(operator)
    attempt = coder("POST", "/claims").body["data"][0]["attempt"]["id"]
    path, at = f"/attempts/{attempt}/heartbeat", int((timezone.now() + HOUR).timestamp())
    headers = {"x-codex-primary-used-percent": "40", "x-codex-primary-window-minutes": "300"}
    event = {"type": "rate_limit_event", "rate_limit_info": rate_limit_info("x", resetsAt=at)}
    for records, source in (([{"headers": headers}, {"headers": 7}], "codex"), ([event], "claude")):
        assert coder("POST", path, {"limit_records": records}).status_code == 200
        assert AccountWindow.objects.get(window="five_hours").source == source
    assert AccountWindow.objects.get(window="five_hours").used == 0.93
    problem(coder("POST", path, {"limit_records": [{}] * 9}), 422, "validation_error")


def test_an_account_is_set_by_operators_and_recorded(
    operator: Api, coder: Api, agent: Agent
) -> None:
    assert operator("PATCH", "/agents/coder", {"account": " team-a "}).body["account"] == "team-a"
    assert operator("PATCH", "/agents/coder", {"paused": False}).body["account"] == "team-a"
    assert operator("PATCH", "/agents/coder", {"account": None}).body["account"] == "coder"
    told = Event.objects.filter(kind="agent.limited").order_by("id").values_list("data", flat=True)
    assert list(told) == [{"account": "team-a"}, {"account": ""}]
    problem(operator("PATCH", "/agents/coder", {"account": "a\nb"}), 422, "validation_error")
    problem(coder("PATCH", "/agents/coder", {"account": "team-a"}), 403, "scope_missing")


def test_the_agents_of_a_project_are_read_with_few_statements(
    operator: Api, coder: Api, project: Project, django_assert_max_num_queries: Any
) -> None:
    for n in range(20):
        make_agent(f"agent-{n}")
    with django_assert_max_num_queries(5):
        assert len(operator("GET", "/agents").body["data"]) == 21


def test_the_accounts_of_a_project_are_listed_with_their_limits(
    operator: Api, coder: Api, second: Agent, api: Any
) -> None:
    other = api("operator", project=make_project("other"))
    make_agent("third")
    operator("PATCH", "/agents/second", {"account": "coder"})
    at = int((timezone.now() + HOUR).timestamp())
    now = timezone.now().isoformat()
    import_lines(coder, token_count(primary=window(100, at=at)) | {"timestamp": now})
    AccountWindow.objects.create(
        project=second.project, account="left", window="week", used=0.9, facts=20, source="codex",
        resets_at=timezone.now() + 96 * HOUR, seen_at=timezone.now() - HOUR / 2,
    )  # fmt: skip
    first = operator("GET", "/accounts?limit=2").body
    rest = operator("GET", f"/accounts?limit=2&cursor={first['next_cursor']}").body
    rows = {row["name"]: row for row in first["data"] + rest["data"]}
    assert [*rows] == ["left", "third", "coder"] and not rest["has_more"]
    assert [rows[name]["agents"] for name in rows] == [0, 1, 2]
    assert rows["coder"]["waits_until"] == operator("GET", "/agents/coder").body["waits_until"]
    assert rows["third"] == {"name": "third", "agents": 1, "waits_until": None, "limits": []}
    assert rows["left"]["limits"][0]["full_at"] and not rows["coder"]["limits"][0]["full_at"]
    assert other("GET", "/accounts").body["data"] == []
    problem(operator("GET", "/accounts?cursor=x"), 400, "bad_cursor")
    problem(coder("GET", "/accounts"), 403, "scope_missing")


def test_a_token_names_the_account_of_its_facts_and_of_its_agent(
    operator: Api, api: Any, second: Agent
) -> None:
    """An agent that has an account keeps it; facts go to the account that the token names."""
    manager = Api(issue_manager(second.project))
    body = {"kind": "agent", "agent": "second", "account": " team-a "}
    made = manager("POST", "/tokens", body).body
    assert (made["account"], billed("second")) == ("team-a", "team-a")
    assert (
        Event.objects.get(kind="token.created", subject_id=made["id"]).data["account"] == "team-a"
    )
    other = manager("POST", "/tokens", body | {"account": "team-b"}).body
    assert billed("second") == "team-a"
    at = int((timezone.now() + HOUR).timestamp())
    line = token_count(primary=window(42.5, at=at))
    import_lines(Api(made["secret"]), line)
    import_lines(Api(other["secret"]), line)
    share(Api(other["secret"]), operator, 0.7)
    rotated = manager("POST", f"/tokens/{made['id']}/rotate", {}).body
    assert rotated["account"] == "team-a"
    share(Api(rotated["secret"]), operator, 1.0)
    rows = AccountWindow.objects.order_by("account").values_list("account", "used")
    assert list(rows) == [("team-a", 1.0), ("team-b", 0.7)]
    assert Agent.objects.get(name="second").waits_until > timezone.now()
    # The agent waits for the limit that its token's account reached, although it is billed to another.
    agents.pause([Agent.objects.get(name="second")], paused=False, stamp=Stamp(SYSTEM))
    share(Api(other["secret"]), operator, 1.0)
    assert Agent.objects.get(name="second").waits_until > timezone.now()
    # An agent whose account was taken away gets that of its next facts.
    operator("PATCH", "/agents/second", {"account": ""})
    import_lines(Api(other["secret"]), token_count(primary=window(71, at=at)))
    assert billed("second") == "team-b"
    for wrong in ({"account": "a\nb"}, {"kind": "operator", "agent": "", "account": "x"}):
        problem(manager("POST", "/tokens", body | wrong), 422, "validation_error")


def issue_manager(project: Project) -> str:
    return tokens.issue("operator", project=project, manages_tokens=True, stamp=Stamp(SYSTEM))[1]


def billed(name: str) -> str:
    return Agent.objects.get(name=name).account


def share(agent: Api, operator: Api, used: float) -> None:
    """Tell a share with a heartbeat."""
    enqueue(operator, agent="second")
    attempt = agent("POST", "/claims").body["data"][0]["attempt"]["id"]
    at = (timezone.now() + HOUR).isoformat()
    limit = {"window": "five_hours", "used": used, "resets_at": at}
    assert agent("POST", f"/attempts/{attempt}/heartbeat", {"limits": [limit]}).status_code == 200


def test_people_see_the_limits_and_set_the_account(
    operator: Api, coder: Api, agent: Agent, second: Agent, admin_client: Client
) -> None:
    """F07: the agent's page, the list of agents, the task's page and the feed."""
    page = admin_client.get(f"/agents/{second.pk}/").content.decode()
    assert "Nothing is known about its limits yet" in page
    url = f"/agents/{second.pk}/account/"
    assert admin_client.post(url, {"account": "coder"}).status_code == 302
    task = enqueue(operator, agent="second")
    at = int((timezone.now() + HOUR).timestamp())
    now, soon = timezone.now().isoformat(), window(100, at=at)
    line = token_count(primary=soon, secondary=window(81.0, 10_080, at)) | {"timestamp": now}
    import_lines(coder, line)
    page = " ".join(admin_client.get(f"/agents/{second.pk}/").content.decode().split())
    assert "<bdi>coder</bdi>, 2 agents" in page
    assert 'aria-label="100% used"' in page and 'aria-label="81% used"' in page
    assert "from Codex" in page and "At a limit until" in page and "Resume" in page
    for query in ("", "?q=state:limited"):
        listed = admin_client.get(f"/agents/{query}").content.decode()
        assert listed.count("at limit until") == 2
    page = " ".join(admin_client.get(f"/tasks/{task}/").content.decode().split())
    assert "On hold: second waits for a limit of its account coder until <time" in page
    feed = admin_client.get("/activity/").content.decode()
    assert "Waits for a limit of the account coder" in feed
    assert "account to coder" in feed


def test_a_window_that_has_been_reset_shows_no_old_figure(
    agent: Agent, admin_client: Client
) -> None:
    ago = timezone.now() - HOUR
    AccountWindow.objects.create(
        project=agent.project, account="coder", window="week", used=1, resets_at=ago,
        source="claude", seen_at=ago - HOUR,
    )  # fmt: skip
    page = admin_client.get(f"/agents/{agent.pk}/").content.decode()
    assert "nothing newer is known" in page and "100% used" not in page
