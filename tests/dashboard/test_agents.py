"""The Agents pages: who asks, who is silent, what waits for whom; and what a person can do."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from dashboard import fleet, selectors
from ledger import instructions, tokens
from ledger.journal import SYSTEM, Kind
from ledger.models import Agent, Event, Instruction
from ledger.states import InstructionState as State
from tests.dashboard.conftest import PART
from tests.factories import make_agent, make_project, make_token, pull, send, tick

URL = "/agents/"
Part = Callable[..., HttpResponse]
HOSTILE = "<script>alert(1)</script>\u202e &amp;"


def html(response: HttpResponse, status: int = 200) -> str:
    assert response.status_code == status
    return re.sub(r"\s+", " ", unescape(response.content.decode()))


def words(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html(response)))


def names(response: HttpResponse) -> list[str]:
    """The agents in the list."""
    found = re.findall(r'<li id="agent-.*?<bdi class="trunc">(.*?)</bdi>', html(response))
    return [unescape(name) for name in found]


def key(response: HttpResponse) -> str:
    found = re.search(r'data-since="([^"]+)"', response.content.decode())
    assert found
    return unescape(found[1])


def seen(agent: Agent, at: datetime | None) -> None:
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=at)


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "BUCKET_SECONDS", 10**9)


@pytest.fixture
def four(now: datetime, project: object) -> dict[str, Agent]:
    """One that asks, one that is silent, one that is paused, one that never asked."""
    made = {name: make_agent(name) for name in ("asks", "silent", "paused", "new")}
    seen(made["asks"], now - timedelta(seconds=8))
    seen(made["silent"], now - timedelta(hours=2))
    seen(made["paused"], now - timedelta(hours=3))
    Agent.objects.filter(pk=made["paused"].pk).update(paused=True)
    for number in range(2):
        send(made["silent"], f"Wake up {number}", now=now - timedelta(hours=1))
    send(made["asks"], "Go on", now=now - timedelta(minutes=2))
    pull(made["asks"], now=now - timedelta(seconds=8))
    return made


# ---- the list


def test_each_agent_has_its_line(browser: Client, four: dict[str, Agent]) -> None:
    response = browser.get(URL)
    assert names(response) == ["silent", "asks", "new", "paused"]
    text = words(response)
    assert "Silent has not asked for 2 h, 2 wait" in text
    assert "In touch asked 8 s ago" in text
    assert "New never asked" in text
    assert "Away Paused asked 3 h ago" in text
    assert "<title>1 silent · Agents · Heed</title>" in html(response)
    assert re.search(r"All 4 Silent 1 Paused 1 Waiting 2 ", text)
    assert "has not asked for 5 m although something waits" in text


def test_what_waits_is_told_apart(browser: Client, four: dict[str, Agent]) -> None:
    line = html(browser.get(URL))
    silent = line[line.index(f'id="agent-{four["silent"].pk}"') :]
    assert (
        'Waiting</dt><dd><a href="/instructions/?q=agent%3Asilent+state%3Aqueued">2</a>' in silent
    )
    asks = line[line.index(f'id="agent-{four["asks"].pk}"') :]
    assert "Waiting</dt><dd>0</dd>" in asks
    assert (
        'Unanswered</dt><dd><a href="/instructions/?q=agent%3Aasks+state%3Adelivered">1</a>' in asks
    )


def test_the_last_day_in_figures(browser: Client, agent: Agent, now: datetime) -> None:
    at = now - timedelta(hours=1)
    for number in range(3):
        id = send(agent, f"Do {number}", now=at)
        pull(agent, now=at)
        instructions.acknowledge_instruction(id, now=at + timedelta(seconds=10))
    send(agent, "Ignored", now=at, max_retries=0)
    pull(agent, now=at)
    tick(at + timedelta(minutes=1))
    text = words(browser.get(URL))
    assert "Ack p50 10 s Ack p95 10 s Ignored 25.0%" in text
    assert "4 sent" in text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"show": "silent"}, ["silent"]),
        ({"show": "paused"}, ["paused"]),
        ({"show": "waiting"}, ["silent", "asks"]),
        ({"show": "nonsense"}, ["silent", "asks", "new", "paused"]),
        ({"name": "SI"}, ["silent"]),
        ({"name": "s", "show": "paused"}, ["paused"]),
        ({"name": "%"}, []),
        ({"name": "a\0s"}, []),
        ({"before": "nonsense", "after": "1"}, ["silent", "asks", "new", "paused"]),
    ],
)
def test_filters_stand_in_the_address(
    browser: Client, four: dict[str, Agent], query: dict[str, str], found: list[str]
) -> None:
    assert names(browser.get(URL, query)) == found


def test_nothing_there_and_nothing_found_are_told_apart(
    browser: Client, project: object, now: datetime
) -> None:
    assert "No agent yet" in words(browser.get(URL))
    make_agent("coder")
    assert "No agent’s name has nobody in it" in words(browser.get(URL, {"name": "nobody"}))
    assert "Every agent that something waits for has asked lately" in words(
        browser.get(URL, {"show": "silent"})
    )
    assert "No agent is paused" in words(browser.get(URL, {"show": "paused"}))
    assert "Nothing waits for any agent" in words(browser.get(URL, {"show": "waiting"}))


def test_pages_go_both_ways(
    browser: Client, project: object, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "PAGE", 3)
    agents = [make_agent(f"a{number}") for number in range(8)]
    for agent in agents[6:]:  # silent: they come first
        send(agent, "Wait", now=now - timedelta(hours=1))
    order = ["a6", "a7", "a0", "a1", "a2", "a3", "a4", "a5"]
    pages, response = [], browser.get(URL)
    for _ in range(5):
        pages.append(names(response))
        older = re.search(r'href="\?after=([0-9a-f-]+)" data-key="]"', html(response))
        if not older:
            break
        response = browser.get(URL, {"after": older[1]})
    assert pages == [order[:3], order[3:6], order[6:]]
    back = re.search(r'href="\?before=([0-9a-f-]+)" data-key="\["', html(response))
    assert back
    response = browser.get(URL, {"before": back[1]})
    assert names(response) == order[3:6]
    back = re.search(r'href="\?before=([0-9a-f-]+)" data-key="\["', html(response))
    assert back
    assert names(browser.get(URL, {"before": back[1]})) == order[:3]


def test_a_project_has_its_own_agents(browser: Client, agent: Agent) -> None:
    other = make_agent("elsewhere", project=make_project("other"))
    assert names(browser.get(URL)) == ["coder", "elsewhere"]
    response = browser.get(URL, {"project": "other"})
    assert names(response) == ["elsewhere"]
    assert f'/agents/{other.pk}/?project=other"' in html(response)
    assert browser.get(URL, {"project": "nowhere"}).status_code == 404


# ---- page, part, polls


def test_page_part_and_poll(browser: Client, part: Part, agent: Agent, now: datetime) -> None:
    page = browser.get(URL)
    assert html(page).startswith("<!doctype html>")
    live = html(part(URL))
    assert "<html" not in live and '<div id="agents"' in live and live.count("hx-swap-oob") == 2
    assert part(URL, since=key(page)).status_code == 204
    send(agent, "News", now=now)
    assert part(URL, since=key(page)).status_code == 200
    one = f"{URL}{agent.pk}/"
    shown = browser.get(one)
    assert part(one, since=key(shown)).status_code == 204
    send(agent, "More news", now=now + timedelta(seconds=1))
    assert part(one, since=key(shown)).status_code == 200


@pytest.mark.parametrize("path", [URL, "{one}"])
def test_the_number_of_rows_costs_no_statement(
    browser: Client, statements: Callable[..., int], agent: Agent, now: datetime, path: str
) -> None:
    path = path.format(one=f"{URL}{agent.pk}/")

    def more(count: int) -> None:
        for number in range(count):
            other = make_agent(f"agent {Agent.objects.count()}")
            make_token("agent", agent=agent)
            for each in (agent, other):
                send(each, f"{each.name} {number} {Instruction.objects.count()}", now=now)
        pull(agent, now=now)

    more(2)
    few = statements(browser, path)
    more(15)
    assert statements(browser, path) == few <= 15
    assert statements(browser, path, {"since": key(browser.get(path))}, headers=PART) <= 5


# ---- one agent


def test_one_agent(browser: Client, agent: Agent, now: datetime) -> None:
    seen(agent, now - timedelta(minutes=20))
    at = now - timedelta(minutes=10)
    secret = make_token("agent", agent=agent, name="laptop")
    id = send(agent, "Rebase on main", now=at)
    pull(agent, now=at)
    instructions.acknowledge_instruction(id, now=at + timedelta(seconds=4))
    send(agent, "Ignored", now=at, max_retries=0)
    pull(agent, now=at)
    tick(at + timedelta(minutes=1))
    response = browser.get(f"{URL}{agent.pk}/")
    text = words(response)
    assert "Away asked 20 m ago" in text
    assert "1 ignored all for coder" in text  # the ladder
    assert "coder acknowledged “ Rebase on main ” in 4.0 s" in text.replace("heed", "coder")
    assert f'href="/instructions/{id}/"' in html(response)
    assert "laptop Last used never" in text and f"{secret[:9]}" in text
    assert secret not in html(response)
    assert "<title>coder · Agent · Heed</title>" in html(response)


def test_revoked_and_expired_tokens_say_so(browser: Client, agent: Agent, now: datetime) -> None:
    for name in ("old", "gone"):
        token, _ = tokens.issue(
            "agent", project=agent.project, agent=agent, name=name, actor=SYSTEM
        )
        if name == "gone":
            tokens.revoke(token, actor=SYSTEM)
        else:
            type(token).objects.filter(pk=token.pk).update(expires_at=now - timedelta(days=1))
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "old expired" in text and "gone revoked" in text


def test_an_agent_of_which_nothing_is_known(browser: Client, agent: Agent) -> None:
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "It has no token" in text and "New never asked" in text
    assert browser.get(f"{URL}{agent.project_id}/").status_code == 404


@pytest.mark.parametrize("path", [URL, "{one}", "/", "/activity/"])
def test_hostile_names_stay_text(
    browser: Client, project: object, now: datetime, path: str
) -> None:
    hostile = make_agent(HOSTILE)
    send(hostile, HOSTILE, now=now - timedelta(hours=1))
    response = browser.get(path.format(one=f"{URL}{hostile.pk}/"))
    raw = response.content.decode()
    assert "<script>alert" not in raw and "&lt;script&gt;alert" in raw
    assert "&amp;amp;" in raw


def test_a_pasted_id_lands_on_the_agent(browser: Client, agent: Agent) -> None:
    assert browser.get("/search/", {"q": str(agent.pk)})["Location"] == f"{URL}{agent.pk}/"


# ---- what a person does


def done(browser: Client, agent: Agent, verb: str, **more: Any) -> str:
    """What the page says after a verb, to somebody without a script."""
    response = browser.post(f"{URL}{agent.pk}/{verb}/", more, follow=True)
    return words(response)


def test_pausing_and_going_on_are_journalled_with_the_person(
    browser: Client, agent: Agent, mara: User
) -> None:
    assert "coder is paused." in done(browser, agent, "pause")
    agent.refresh_from_db()
    assert agent.paused
    event = Event.objects.get(kind=Kind.AGENT_PAUSED)
    assert (event.actor_type, event.actor_id, event.actor_name) == ("user", str(mara.pk), "mara")
    assert "coder was paused already." in done(browser, agent, "pause")
    assert "coder goes on." in done(browser, agent, "resume")
    assert "coder was not paused." in done(browser, agent, "resume")
    agent.refresh_from_db()
    assert not agent.paused
    assert Event.objects.filter(kind__startswith="agent.").count() == 3  # with its registration


def test_reset_asks_first_and_then_withdraws_what_waits(
    browser: Client, agent: Agent, mara: User, now: datetime
) -> None:
    kept = send(agent, "Done already", now=now)
    instructions.acknowledge_instruction(kept, now=now)
    waits = [send(agent, f"Wait {number}", now=now) for number in range(2)]
    pull(agent, now=now, limit=1)
    asked = done(browser, agent, "reset")
    assert (
        "Reset coder ? 2 instructions that wait for coder or for its answer are withdrawn" in asked
    )
    assert not Event.objects.filter(kind=Kind.AGENT_RESET).exists()
    assert "2 instructions for coder were withdrawn." in done(
        browser, agent, "reset", confirmed="yes"
    )
    states = Instruction.objects.in_bulk([kept, *waits])
    assert states[kept].state == State.ACKNOWLEDGED
    assert {states[id].state for id in waits} == {State.CANCELLED}
    event = Event.objects.get(kind=Kind.AGENT_RESET)
    assert (event.actor_name, event.data) == ("mara", {"cancelled": 2})
    assert "Nothing waited for coder." in done(browser, agent, "reset", confirmed="yes")


def test_a_verb_leads_back_to_where_its_button_stood(browser: Client, agent: Agent) -> None:
    def after(**more: str) -> str:
        return str(browser.post(f"{URL}{agent.pk}/pause/", more)["Location"])

    assert after(next="/agents/?show=paused") == "/agents/?show=paused"
    for elsewhere in ("", "https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        assert after(next=elsewhere) == f"{URL}{agent.pk}/"


def test_looking_changes_nothing(browser: Client, agent: Agent, mara: User, now: datetime) -> None:
    send(agent, "Wait", now=now)
    events = Event.objects.count()
    for path in ("", "?show=silent", f"{agent.pk}/", f"{agent.pk}/?ask=reset"):
        assert browser.get(URL + path).status_code == 200
    for verb in ("pause", "resume", "reset"):
        assert browser.get(f"{URL}{agent.pk}/{verb}/").status_code == 405
    assert browser.post(URL).status_code == 405
    assert browser.post(f"{URL}{agent.pk}/explode/").status_code == 404
    assert browser.post(f"{URL}{agent.project_id}/pause/").status_code == 404
    assert Event.objects.count() == events


def test_strangers_see_and_do_nothing(agent: Agent, mara: User) -> None:
    stranger = Client()
    stranger.force_login(User.objects.create_user("visitor"))
    for path in (URL, f"{URL}{agent.pk}/"):
        assert stranger.get(path)["Location"].startswith("/sign-in/")
        assert stranger.get(path, headers=PART).status_code == 401
    for verb in ("pause", "reset"):
        response = stranger.post(f"{URL}{agent.pk}/{verb}/", {"confirmed": "yes"})
        assert response["Location"].startswith("/sign-in/")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(mara)
    assert strict.post(f"{URL}{agent.pk}/pause/").status_code == 403
    agent.refresh_from_db()
    assert not agent.paused and not Event.objects.filter(kind=Kind.AGENT_RESET).exists()


def test_the_id_floor_finds_what_was_sent_in_the_window(project: object, now: datetime) -> None:
    """Figures read instructions by the time in their ids."""
    with connection.cursor() as cursor:
        cursor.execute("select uuidv7('-1 hour'::interval), clock_timestamp() - interval '1 hour'")
        id, at = cursor.fetchone()
    from dashboard.feed import first_id

    assert (
        first_id(at - timedelta(milliseconds=50)) < id < first_id(at + timedelta(milliseconds=50))
    )
    assert first_id(datetime(1960, 1, 1, tzinfo=timezone.get_default_timezone())).int >= 0
