"""What pages show of a task's proof: its card, the list, the agent, the plan's summary."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from dashboard.tasks.evidence import HEADINGS
from dashboard.wording.badges import PROOFS
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Task
from ledger.states import Proof
from ledger.tokens import TrustedCaller
from retries.attempts import finishing
from retries.attempts.checks.reported import make_check
from retries.attempts.endings import SeenBy
from retries.attempts.report_fields import Report
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from tests.dashboard.seen import rows, words
from tests.dashboard.worked import MARA, SECOND, claimed, enqueued

pytestmark = pytest.mark.django_db

COMMIT = "9c1f44ab" + "0" * 32
CLEAN = {"commit": COMMIT, "diff": None, "files": 0}
CHANGED = {"commit": COMMIT, "diff": "e07b" + "1" * 60, "files": 2}


def finish(
    agent: Agent, *, now: datetime, left: Any = None, evidence: str | None = None, **check: Any
) -> Task:
    """Finish a task whose check is `make test`, with one run of it if `check` says how it ended."""
    payload = {"verify": {"command": "make test"}}
    id = enqueued(agent, "Backfill", payload=payload, evidence=evidence, now=now)
    attempt = claimed(agent, id, now=now)
    checks = [make_check("make test", at=now, **check)] if check else []
    report = Report(checks=checks, tree=left)
    caller = TrustedCaller(SYSTEM, agent=agent)
    finishing.finish_attempt(attempt, report, caller=caller, now=now + 10 * SECOND)
    return Task.objects.get(pk=id)


def passed(seen_by: SeenBy = SeenBy.CLIENT, **more: Any) -> dict[str, Any]:
    return {"exit_code": 0, "seen_by": seen_by} | more


def test_the_card_says_what_a_done_task_rests_on(
    browser: Client, agent: Agent, now: datetime
) -> None:
    def card(left: Any = None, **check: Any) -> str:
        task = finish(agent, now=now - timedelta(minutes=2), left=left, **check)
        return words(browser.get(f"/tasks/{task.pk}/"))

    proven = card(**passed(tree=CLEAN, cwd="/src/ledger", duration_s=41.0), left=CLEAN)
    assert "Done, proven" in proven and "Command make test Exit code 0 read by the" in proven
    assert "Where w1 , /src/ledger , 41 s On tree 9c1f44a Changed since nothing" in proven
    hooked = card(**passed(SeenBy.HOOK))
    assert "Done, proven" in hooked and "On tree not read" in hooked
    stale = card(**passed(tree=CLEAN), left=CHANGED)
    assert "Done, then files changed" in stale and "Changed since files" in stale
    dirty = card(**passed(tree=CHANGED), left=CHANGED)
    assert "9c1f44a and 2 changed files, tree:e07b1111" in dirty
    claimed = card()
    assert "Done, claimed only coder says so" in claimed
    assert "Exit code unknown no check was reported" in claimed
    told = card(**passed(SeenBy.AGENT))
    assert "Done, claimed only" in told and "Exit code 0 the agent’s word" in told
    unknown = card(exit_code=None, seen_by=SeenBy.HOOK, unknown="background")
    assert "Exit code unknown it ran in the background" in unknown


def test_a_task_that_is_not_done_has_no_card(browser: Client, agent: Agent, now: datetime) -> None:
    id = enqueued(agent, now=now)
    assert "Exit code" not in words(browser.get(f"/tasks/{id}/"))


def test_a_person_accepts_on_the_page_what_nothing_proves(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = finish(agent, now=now, evidence="require")
    asked = Escalation.objects.get(task=task)
    url = f"/escalations/{asked.pk}/"
    page = words(browser.get(url))
    assert "Done without proof" in page and "Accept as done" in page
    answering.answer(
        asked.pk,
        Choice(Answer.ACCEPT, note="Rotated by hand"),
        among=Escalation.objects.all(),
        stamp=Stamp(MARA, now + 20 * SECOND),
        channel="page",
    )
    page = words(browser.get(f"/tasks/{task.pk}/"))
    assert "Done by a person accepted by mara" in page and "Why Rotated by hand" in page
    assert "mara accepted it as done" in page
    assert "accepted it as done" in words(browser.get(url))


def test_the_list_filters_and_shows_proofs(browser: Client, agent: Agent, now: datetime) -> None:
    proven = finish(agent, now=now, **passed())
    claims = finish(agent, now=now)
    old = finish(agent, now=now)
    Task.objects.filter(pk=old.pk).update(proof=None)  # as before proofs were stored
    enqueued(agent, now=now)

    def found(text: str) -> set[str]:
        return set(rows(browser.get("/tasks/", {"q": text}), "task"))

    assert found("proof:proven") == {str(proven.pk)}
    assert found("proof:claimed") == {str(claims.pk), str(old.pk)}
    assert found("-proof:claimed state:done") == {str(proven.pk)}
    assert found("proof:stale,person") == set()
    page = words(browser.get("/tasks/", {"column": "proof", "q": "state:done"}))
    assert "Proof" in page and "Proven" in page and page.count("Claimed") >= 2


def test_an_agent_s_page_compares_claims_with_proof(
    browser: Client, agent: Agent, now: datetime
) -> None:
    url = f"/agents/{agent.pk}/"
    assert "Claims and proof" not in words(browser.get(url))
    finish(agent, now=now, **passed())
    for _ in range(2):
        finish(agent, now=now)
    page = words(browser.get(url))
    assert "Claims and proof its newest 3 done tasks Proven share 33%" in page
    assert "Proven 1 Stale 0 Claimed 2 By a person 0" in page


def test_every_proof_has_a_heading_and_a_badge() -> None:
    assert set(PROOFS) == set(HEADINGS) == set(Proof)
