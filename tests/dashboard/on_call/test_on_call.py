"""The On call page: policies, rotas, and who has an escalation."""

from datetime import datetime, timedelta

import pytest
from django.test import Client

from ledger.models import Agent, Project
from retries.models import Escalation, EscalationPolicy, Rota
from retries.on_call import routing
from tests.dashboard.seen import html, words
from tests.dashboard.worked import make_task
from tests.retries.on_call.test_routing import make_member

pytestmark = pytest.mark.django_db
URL = "/settings/on-call/"


def test_a_rota_and_a_policy_are_made_changed_and_deleted_on_the_page(
    browser: Client, project: Project
) -> None:
    make_member(project, "jon")
    assert "New rota" in words(browser.get(f"{URL}?edit=rota:new"))
    bad = browser.post(f"{URL}rota/", {"name": "nights", "fallback": "zoe", "shifts": "<b>"})
    assert "Write a shift as" in html(bad, 422) and b"<b></textarea>" not in bad.content
    form = {"name": "nights", "timezone": "Europe/Berlin", "fallback": "mara"}
    form |= {"shifts": "daily 22:00-06:00 jon\r\n"}
    assert browser.post(f"{URL}rota/", form).status_code == 302
    rota = Rota.objects.get()
    form = {"name": "all", "within": "90", "steps": "0 tell rota:nights\n60 answer skip"}
    browser.post(f"{URL}policy/", form | {"enabled": "on", "conditions": "severity:high"})
    policy = EscalationPolicy.objects.get()
    assert (policy.answer_within_s, policy.answer_by_name) == (5400, "mara")
    text = words(browser.get(URL))
    assert "Default answer written by mara" in text and "severity:high" in text
    assert "jon" in text and "No channel of their own reaches" in text
    row = {"row": str(policy.pk), "version": "1", "position": "1"}
    assert "Edit all" in words(browser.get(f"{URL}?edit=policy:{policy.pk}"))
    browser.post(f"{URL}policy/", form | row | {"within": "30", "steps": "0 tell jon"})
    policy.refresh_from_db()
    assert (policy.answer_within_s, policy.enabled) == (1800, False)
    stale = browser.post(f"{URL}policy/", form | row)
    assert "changed it meanwhile" in html(stale, 422)
    asked = browser.post(f"{URL}policy/{policy.pk}/delete/", follow=True)
    assert (
        "Its open escalations get another policy" in words(asked)
        and EscalationPolicy.objects.exists()
    )
    browser.post(f"{URL}policy/{policy.pk}/delete/", {"confirmed": "yes"})
    browser.post(f"{URL}rota/{rota.pk}/delete/", {"confirmed": "yes"})
    assert not EscalationPolicy.objects.exists() and not Rota.objects.exists()


def test_the_escalation_and_its_line_say_who_has_it_until_when(
    browser: Client, agent: Agent, now: datetime
) -> None:
    make_member(agent.project, "jon")
    steps = "0 tell mara\n30 tell jon\n40 answer skip"
    browser.post(f"{URL}policy/", {"name": "all", "within": "20", "steps": steps, "enabled": "on"})
    make_task("escalated", "Fix it", agent=agent, now=now - timedelta(minutes=25))
    routing.take_due_steps(now=now)
    escalation = Escalation.objects.get()
    text = words(browser.get(f"/escalations/{escalation.pk}/"))
    assert "mara has it, until" in text and "then on call: jon · policy all" in text
    assert "Overdue since" in text and "overdue" in text
    routing.take_due_steps(now=now + timedelta(minutes=30))
    text = words(browser.get(f"/escalations/{escalation.pk}/"))
    assert "jon has it, until" in text and "then the default answer: skip" in text
