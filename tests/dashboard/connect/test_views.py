"""The page that connects an agent: its token, its lines, and who may see what."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from dashboard.connect.creation import new_id
from dashboard.connect.queries import FIRST_TEXT
from ledger.access.auth_failures import KEY
from ledger.authorization.roles import Role
from ledger.database import optional_cache
from ledger.journal import SYSTEM
from ledger.models import Agent, Event, Instruction, Membership, Project, Token
from ledger.signal_matching import report_signal
from ledger.tokens import TrustedCaller
from tests.dashboard.conftest import PART
from tests.dashboard.seen import html, key, words
from tests.factories import make_project, make_token

PATH = "/agents/connect/"
SECRET = re.compile(r"tenfour_agt_[0-9A-Za-z]{30}_[0-9A-Za-z]{6}")
WAYS = ("claude", "codex", "cli", "curl", "install", "python", "mcp", "toml", "prompt", "check")


@pytest.fixture(autouse=True)
def _no_failures() -> None:
    optional_cache.delete(KEY)


def form_of(page: HttpResponse) -> str:
    found = re.search(r'id="connect-form" method="post"\s+action="([^"]+)"', page.content.decode())
    assert found
    return found[1]


def create(browser: Client, name: str = "coder", **more: str) -> HttpResponse:
    return browser.post(form_of(browser.get(PATH)), {"agent": name, **more})


def lines_of(page: HttpResponse, way: str) -> str:
    """Return the lines of a way as a person copies them."""
    found = re.search(rf'id="lines-{way}"\s*>(.*?)</pre>', page.content.decode(), re.DOTALL)
    assert found, way
    return unescape(re.sub(r"<[^>]+>", "", found[1])).strip()


def test_looking_creates_nothing(browser: Client) -> None:
    page = browser.get(PATH)
    assert "No token yet" in words(page)
    assert "no-store" in page["Cache-Control"]
    assert all("tenfour_agt_" not in lines_of(page, way) for way in WAYS)
    assert "$TENFOUR_TOKEN" in lines_of(page, "curl")
    assert browser.get(form_of(page), follow=True).status_code == 200
    assert not Token.objects.exists() and not Agent.objects.exists()


def test_one_post_makes_agent_token_and_instruction_and_shows_the_secret_once(
    browser: Client,
) -> None:
    form = form_of(browser.get(PATH))
    page = browser.post(form, {"agent": "coder", "way": "curl"})
    shown = page.content.decode()
    (secret,) = set(SECRET.findall(shown))
    token, sent = Token.objects.get(), Instruction.objects.get()
    assert token.kind == "agent" and token.agent and token.agent.name == "coder"
    assert (sent.content, sent.agent_id, sent.state) == (FIRST_TEXT, token.agent_id, "queued")
    assert (sent.expect_type, sent.expect_match) == ("fs_command", {"command": "git"})
    assert len(set(Event.objects.values_list("at", flat=True))) == 1  # one transaction
    assert "no-store" in page["Cache-Control"] and secret not in form
    for way in ("claude", "codex", "cli", "curl", "python", "mcp", "prompt"):
        assert secret in lines_of(page, way), way
        assert len(lines_of(page, way).splitlines()) <= 5
    assert settings.LINK_URL + reverse("client_wheel") in lines_of(page, "claude")
    assert str(sent.pk) in lines_of(page, "curl")
    for again in (browser.get(form), browser.post(form, {"agent": "coder"})):
        assert not SECRET.search(again.content.decode())
        assert f"{token.prefix}••••••••" in html(again) and "Replace token" in html(again)
    assert Token.objects.count() == 1


@pytest.mark.parametrize("name", ["", " a", "w" * 65, "a\0b", "tab\there"])
def test_a_bad_name_is_refused_with_a_reason(browser: Client, name: str) -> None:
    refused = create(browser, name)
    if name.strip() == "a":
        assert refused.status_code == 200
    else:
        assert "An agent's name must" in html(refused, 422)
        assert not Token.objects.exists()


def test_another_name_replaces_an_unused_token_but_never_a_used_one(
    browser: Client, now: datetime
) -> None:
    first = create(browser, "coder")
    old = Token.objects.get()
    again = browser.post(form_of(first), {"agent": "painter", "replaces": str(old.pk)})
    old.refresh_from_db()
    assert old.revoked_at is not None
    assert Instruction.objects.get(agent__name="coder").state == "cancelled"
    used = Token.objects.get(agent__name="painter")
    Token.objects.filter(pk=used.pk).update(last_used_at=now)
    browser.post(form_of(again), {"agent": "painter", "replaces": str(used.pk)})
    used.refresh_from_db()
    assert used.revoked_at is None and used.agent and used.agent.token_set.count() == 2


def test_the_token_can_be_revoked(browser: Client) -> None:
    create(browser)
    path = reverse("dashboard:connect_token", args=[Token.objects.get().pk])
    told = browser.post(path, {"revoke": "yes"}, follow=True)
    assert "The token is revoked." in words(told)
    assert "no longer valid" in words(browser.get(path))


def test_a_viewer_reads_the_names_of_the_projects_admins(project: Project) -> None:
    """Admins of other projects are not among them."""
    elsewhere = make_project("elsewhere")
    for name, role, of in (
        ("adam", Role.ADMIN, elsewhere),
        ("omar", Role.OPERATOR, project),
        ("priya", Role.ADMIN, project),
        ("vera", Role.VIEWER, project),
    ):
        user = User.objects.create_user(name)
        Membership.objects.create(user=user, project=of, role=role, added_by="mara")
    client = Client()
    client.force_login(User.objects.get(username="vera"))
    assert "Ask priya for the token" in words(client.get(PATH))
    assert "Ask priya for the token" in words(client.get("/"))


def test_who_may_not_create_tokens_gets_the_lines_and_a_name(mara: User, now: datetime) -> None:
    viewer = User.objects.create_user("vera", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_agent"))
    client = Client()
    client.force_login(viewer)
    page = client.get(PATH)
    assert "You can’t create tokens." in words(page) and "Ask mara" in words(page)
    assert "connect-form" not in page.content.decode()
    assert "$TENFOUR_TOKEN" in lines_of(page, "cli")
    path = reverse("dashboard:connect_token", args=[new_id(now)])
    assert client.post(path, {"agent": "coder"}).status_code == 403
    assert not Token.objects.exists()


# ---- the light


def light_of(browser: Client, **given: str) -> HttpResponse:
    path = reverse(
        "dashboard:connect_light", args=[Token.objects.filter(kind="agent").latest("id").pk]
    )
    return browser.get(path, given, headers=PART)


def set_call(now: datetime, **call: object) -> None:
    facts = {"what": "GET /v1/me", "program": "curl/8.9", "address": "10.0.4.17", **call}
    Token.objects.update(last_used_at=now, first_used_at=now, first_call=facts)


def test_the_light_follows_the_agent_to_its_first_acknowledgment(
    browser: Client, now: datetime
) -> None:
    create(browser)
    waiting = light_of(browser)
    assert "Waiting for the first call from coder." in words(waiting)
    assert "works only on this machine" in words(waiting)
    assert "navigation" not in html(waiting) and "<title>" not in html(waiting)
    assert light_of(browser, since=key(waiting)).status_code == 204
    agent = Agent.objects.get()
    secret = make_token("agent", agent=agent)
    token = Token.objects.latest("id")
    headers = {"Authorization": f"Bearer {secret}", "User-Agent": "curl/8.9"}
    assert Client().get("/v1/me", headers=headers).status_code == 200
    came = light_of(browser, since=key(waiting), way="claude")
    assert "Connected: GET /v1/me from curl 8.9 127.0.0.1. The token works." in words(came)
    assert "Hooks have not called yet: start Claude Code" in words(came)
    assert "Hooks have not" not in words(light_of(browser, way="curl"))
    hook = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "go"}
    told = Client().post("/v1/hooks/agent", hook, "application/json", headers=headers)
    assert "git status" in told.content.decode()
    heard = light_of(browser, since=key(came))
    assert "UserPromptSubmit hook from curl 8.9" in words(heard)
    assert "Delivered “Run git status and say" in words(heard)
    assert html(heard).count("is-done") == 4
    caller = TrustedCaller(SYSTEM, agent=agent)
    report_signal("fs_command", {"command": "git", "line": "git status"}, caller=caller)
    done = light_of(browser, since=key(heard))
    assert "coder is connected" in words(done) and "told, by running git status" in words(done)
    assert html(done).count("is-done") == 5
    token.refresh_from_db()
    stored = (token.first_call, token.first_hook)
    Token.objects.update(last_used_at=now - timedelta(minutes=5))
    Client().post("/v1/hooks/agent", hook, "application/json", headers=headers)
    token.refresh_from_db()
    assert token.last_used_at and token.last_used_at > now - timedelta(minutes=1)
    assert stored == (token.first_call, token.first_hook)  # written once


def test_after_two_minutes_it_says_what_to_look_at(browser: Client, now: datetime) -> None:
    create(browser)
    Token.objects.update(created_at=now - timedelta(minutes=3, seconds=9))
    assert "Nothing yet after 3 m" in words(light_of(browser))
    assert "Copy the check" in words(light_of(browser))


def test_a_refused_call_is_named_without_its_secret(browser: Client) -> None:
    create(browser)
    wrong = f"tenfour_agt_9Qz1{'x' * 26}_abcdef"
    Client().get("/v1/me", headers={"Authorization": f"Bearer {wrong}"})
    shown = light_of(browser)
    assert "A call with a wrong token" in words(shown) and "tenfour_agt_9Qz1…" in words(shown)
    assert "It is not the token of this page" in words(shown)
    assert "xxxxx" not in html(shown)
    Client().get("/v1/me", headers={"Authorization": "Bearer sk-someone-elses-key"})
    assert "sk-" not in html(light_of(browser))
    assert "wrong" in words(light_of(browser))


def test_a_token_of_another_kind_is_named(browser: Client) -> None:
    create(browser)
    secret = make_token("reader")
    headers = {"Authorization": f"Bearer {secret}"}
    Client().post("/v1/instructions/pull", {}, "application/json", headers=headers)
    shown = words(light_of(browser))
    assert "That is a reader’s token" in shown and "POST /v1/instructions/pull" in shown


def test_a_refused_token_of_another_project_is_not_shown(browser: Client) -> None:
    create(browser)
    secret = make_token("reader", project=make_project("elsewhere"))
    headers = {"Authorization": f"Bearer {secret}"}
    Client().post("/v1/instructions/pull", {}, "application/json", headers=headers)
    assert "Waiting for the first call" in words(light_of(browser))


def test_a_failure_before_the_token_or_after_the_first_call_is_not_shown(
    browser: Client, now: datetime
) -> None:
    Client().get("/v1/me", headers={"Authorization": "Bearer nothing"})
    create(browser)
    assert "Waiting for the first call" in words(light_of(browser))
    Client().get("/v1/me", headers={"Authorization": "Bearer nothing"})
    assert "wrong token" in words(light_of(browser))
    set_call(now)
    assert "Connected: GET /v1/me" in words(light_of(browser))


def test_a_wrong_clock_is_named(browser: Client, now: datetime) -> None:
    create(browser)
    set_call(now, clock_ahead_s=400)
    assert "Its clock is 6 m 40 s ahead" in words(light_of(browser))
    assert "Set the clock of 10.0.4.17" in words(light_of(browser))


def test_hostile_facts_stay_text(browser: Client, now: datetime) -> None:
    create(browser)
    set_call(now, program="<script>alert(1)</script>", what="GET /<b>")
    assert "<script>alert" not in light_of(browser).content.decode()
    assert "<b>" not in re.sub(r"<b><bdi>", "", light_of(browser).content.decode())


def test_a_poll_is_cheap(browser: Client, statements: Callable[..., int]) -> None:
    create(browser)
    path = reverse("dashboard:connect_light", args=[Token.objects.get().pk])
    since = key(light_of(browser))
    assert statements(browser, path, {"since": since}, headers=PART) <= 5
