"""The page of permission rules: proposals, the form with its trial, and what a rule decided."""

from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client

from dashboard.permissions import queries
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Event
from retries import sweeps
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation, PermissionRequest, PermissionRule
from retries.states import Answer, RuleState
from tests.dashboard.escalations.test_escalations import html, words
from tests.factories import make_agent, make_project
from tests.retries.permissions.asking import ask, escalation_of, make_rule

URL = "/settings/permissions/"
NEW = f"{URL}new/"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
HOSTILE = "<script>document.title='owned'</script>"


def decided(
    agent: Agent, line: str, *, now: datetime, by: int = 1, action: Answer = Answer.ALLOW
) -> PermissionRequest:
    """Return a request that a person decided after two minutes."""
    found = ask(agent, line, now=now, session=f"s-{now.timestamp()}-{by}")
    answering.answer(
        escalation_of(found).pk,
        Choice(action),
        among=Escalation.objects.all(),
        stamp=Stamp(Actor("user", str(by), f"person{by}"), now + 2 * MINUTE),
        channel="page",
    )
    return found


def test_what_was_allowed_each_time_is_proposed(
    browser: Client, agent: Agent, now: datetime
) -> None:
    for number in range(4):
        decided(agent, "npm test", now=now - number * 20 * HOUR - HOUR, by=number % 2)
    for number in range(3):
        action = Answer.DENY if number == 2 else Answer.ALLOW
        decided(agent, "npm publish", now=now - number * HOUR - HOUR, action=action)
    for number in range(2):
        decided(agent, "npm run lint", now=now - number * HOUR - HOUR)
    said = words(browser.get(URL))
    assert (
        f"npm test in {agent.project.name} was allowed 4 of 4 times in 3 days, by 2 people, "
        "for 1 agent that waited 8 m" in said
    )
    assert "npm run lint in" not in said and "npm publish in" not in said
    assert "Agents waited 18 m for permission 9 answers by people in 7 days" in said
    assert "2 of 3 allowed" in said


def test_insight_says_how_long_agents_waited_for_permission(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Of each range; requests that no person answered count for nothing."""
    other = make_agent("second", project=make_project("other"))
    for number in range(3):
        decided(agent, "npm test", now=now - number * HOUR - HOUR)
    decided(agent, "npm publish", now=now - 2 * HOUR, action=Answer.DENY)
    decided(agent, "echo $x", now=now - 3 * 24 * HOUR)
    decided(other, "npm test", now=now - HOUR)
    ask(agent, "npm run lint", now=now - HOUR)
    sweeps.run("insight", now=now)
    said = words(browser.get("/insight/?range=24h"))
    panel = said[said.index("Waiting for permission") :]
    assert "Agents waited 10 m for 5 answers about calls." in panel
    assert f"npm test {agent.project.name} 3 of 3 6 m" in panel and "npm test other 1 of 1" in panel
    assert "npm publish" in panel and "0 of 1" in panel and "no rule can allow" not in panel
    said = words(browser.get("/insight/?range=7d"))
    assert "Agents waited 12 m for 6 answers" in said
    assert f"Bash calls that no rule can allow {agent.project.name} 1 of 1 2 m" in said


def test_a_rules_page_has_pages_of_what_it_let_through(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = make_rule(agent, "make *", now=now)
    for number in range(5):
        ask(agent, f"make target-{number}", now=now, session=f"s-{number}")
    monkeypatch.setattr(queries, "REQUESTS_SHOWN", 2)
    page = browser.get(f"{URL}{rule.pk}/")
    assert "make target-4" in words(page) and "make target-2" not in words(page)
    last = words(browser.get(f"{URL}{rule.pk}/?page=3"))
    assert "make target-0" in last and "make target-1" not in last and '="next"' not in last


def test_a_proposal_is_put_aside(browser: Client, agent: Agent, now: datetime) -> None:
    for number in range(3):
        decided(agent, "npm test", now=now - number * HOUR - HOUR)
    posted = {"in": agent.project.name, "tool": "Bash", "matcher": "npm test"}
    said = words(browser.post(f"{URL}dismiss/", posted, follow=True))
    assert "Not proposed again for 30 days." in said
    assert "Proposed" not in said
    rule = PermissionRule.objects.get()
    assert (rule.state, rule.ended_by_name) == (RuleState.DISMISSED, "mara")
    assert "No rules yet" in said
    assert Event.objects.filter(kind="permission_rule.dismissed").count() == 1


def test_a_rule_that_exists_is_not_proposed(browser: Client, agent: Agent, now: datetime) -> None:
    for number in range(3):
        decided(agent, "npm test", now=now - number * HOUR - HOUR)
    make_rule(agent, "npm test", now=now)
    assert "Proposed" not in words(browser.get(URL))


def test_a_rule_is_saved_after_its_trial(browser: Client, agent: Agent, now: datetime) -> None:
    decided(agent, "npm test", now=now - HOUR, action=Answer.DENY)
    decided(agent, "npm test", now=now - 2 * HOUR)
    form = {"tool": "Bash", "matcher": "npm test", "verdict": "allow", "agent": ""}
    shown = browser.get(f"{NEW}?{urlencode(form)}")
    assert "it would have allowed 2 against a person’s answer 1" in words(shown)
    assert "a person decided the other way" in words(shown)
    tried = "\n".join(form.values()).replace("npm test\nallow", "npm test\nallow")
    saved = browser.post(NEW, form | {"save": "yes", "tried": tried}, follow=True)
    rule = PermissionRule.objects.get()
    assert saved.redirect_chain[-1][0] == f"{URL}{rule.pk}/"
    assert "In force: Allow Bash npm test." in words(saved)
    changed = form | {"save": "yes", "tried": tried, "matcher": "npm run lint"}
    assert "look at what the rule would have decided" in words(browser.post(NEW, changed), 422)
    assert PermissionRule.objects.count() == 1


def test_the_form_names_what_is_wrong(browser: Client, agent: Agent) -> None:
    for form, said in (
        ({"tool": "Bash", "matcher": "npm $(x)", "verdict": "allow"}, "hint--err"),
        ({"tool": "Bash", "matcher": "npm test", "agent": "codre"}, "There is no agent “codre”"),
        ({"tool": "Edit", "matcher": "/etc/**", "verdict": "allow"}, "hint--err"),
    ):
        response = browser.post(NEW, form | {"save": "yes"})
        assert said in html(response, 422)
        assert 'name="save"' not in response.content.decode()
    assert not PermissionRule.objects.exists()


def test_the_page_of_a_rule_lists_what_it_let_through(
    browser: Client, agent: Agent, now: datetime
) -> None:
    rule = make_rule(agent, "npm test", now=now - HOUR)
    ask(agent, "npm test", now=now - MINUTE)
    ask(make_agent("tester"), "npm test", now=now)
    page = browser.get(f"{URL}{rule.pk}/")
    assert "What it let through" in words(page)
    assert words(page).count("/srv/web-shop") == 2
    assert "Used 2 times" in words(page)


def test_a_rule_is_revoked_after_its_question(browser: Client, agent: Agent, now: datetime) -> None:
    rule = make_rule(agent, "npm ci", now=now)
    act = f"{URL}{rule.pk}/revoke/"
    asked = browser.post(act, follow=True)
    assert "Revoke this rule?" in words(asked)
    said = words(browser.post(act, {"confirmed": "yes"}, follow=True))
    assert "Revoked. The next call is asked about again." in said
    rule.refresh_from_db()
    assert rule.state == RuleState.REVOKED
    assert "npm ci" not in words(browser.get(URL))
    assert "npm ci" in words(browser.get(f"{URL}?q=state:revoked"))
    again = words(browser.post(act, {"confirmed": "yes"}, follow=True))
    assert "Nothing changed" in again


def test_hostile_texts_are_text(browser: Client, agent: Agent, now: datetime) -> None:
    rule = make_rule(agent, f"echo '{HOSTILE}'", allows=False, message=HOSTILE, now=now)
    form = {"tool": HOSTILE, "matcher": HOSTILE, "message": HOSTILE, "agent": HOSTILE}
    for page in (
        browser.get(URL),
        browser.get(f"{URL}{rule.pk}/"),
        browser.get(f"{NEW}?{urlencode(form)}"),
    ):
        assert HOSTILE not in page.content.decode()


def test_another_project_has_its_own_rules(browser: Client, agent: Agent, now: datetime) -> None:
    other = make_agent("coder", project=make_project("other"))
    make_rule(other, "npm test", now=now)
    assert "npm test" in words(browser.get(f"{URL}?project=other"))
    assert "No rules yet" in words(browser.get(f"{URL}?project={agent.project.name}"))


def test_the_page_costs_few_statements(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    for number in range(60):
        make_rule(agent, f"npm run step{number}", now=now)
        decided(agent, f"npm run other{number % 9}", now=now - number * MINUTE - HOUR)
    browser.get(URL)
    assert statements(browser, URL) <= 15
    rule = PermissionRule.objects.first()
    assert rule
    assert statements(browser, f"{URL}{rule.pk}/") <= 15
    assert statements(browser, f"{NEW}?tool=Bash&matcher=npm+run+other1") <= 15
