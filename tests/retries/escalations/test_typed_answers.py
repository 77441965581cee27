"""An answer with a secret: as typed for its own task's agent, masked for everyone else (SEC-4)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from ledger.models import Agent, Event, Task
from ledger.secrets import encryption
from ledger.states import TaskState
from retries.failures.fixes import reading as fixes
from retries.failures.fixes import suggestions
from retries.models import Escalation, FailurePattern, StoredContext
from tests.conftest import Api
from tests.dashboard.worked import make_task
from tests.factories import NOW, make_token, pull, send, tick
from tests.retries.failures.test_suggestions import MISSING, fixed
from tests.retries.operations import worlds
from tests.secret_texts import LEFT, TOKEN, find_secrets

pytestmark = pytest.mark.django_db
FIX = f"Set ANTHROPIC_API_KEY={TOKEN} in .env"
MASKED = "Set ANTHROPIC_API_KEY=[redacted:github] in .env"
WARNING = "Only this task's agent will see it"
HOUR = timedelta(hours=1)


@pytest.fixture
def task(agent: Agent) -> Task:
    start = timezone.now() - timedelta(minutes=5)
    why = {"message": MISSING}
    return make_task(TaskState.ESCALATED, "Build", agent=agent, now=start, why=why)


def resolve(operator: Api, task: Task, **body: Any) -> Any:
    asked = Escalation.objects.get(task=task, state="open")
    answer = operator("POST", f"/escalations/{asked.pk}/resolve", body or {"text": f"fix: {FIX}"})
    assert answer.status_code == 200, answer.content
    return answer


def test_the_agent_gets_the_words_as_typed_and_no_one_else(
    operator: Api, coder: Api, task: Task
) -> None:
    answer = resolve(operator, task)
    assert [WARNING in each for each in answer.body["warnings"]] == [True]
    assert answer.body["decision"]["instruction"] == MASKED
    event = Event.objects.get(kind="escalation.resolved")
    assert event.data["words"] == MASKED and find_secrets() == set()

    asked = Escalation.objects.get(task=task)
    for caller, told in ((coder, FIX), (operator, MASKED), (Api(make_token("reader")), MASKED)):
        seen = caller("GET", f"/escalations/{asked.pk}").body["resolution"]["instruction"]
        context = caller("GET", f"/tasks/{task.pk}/retry-context").content.decode()
        prompt = caller("GET", f"/tasks/{task.pk}/prompt").content.decode()
        assert seen == told and told in context and told in prompt
    (claimed,) = coder("POST", "/claims", {"task": str(task.pk)}).body["data"]
    assert FIX in claimed["retry_context"] and FIX in claimed["prompt"]
    assert MASKED in StoredContext.objects.get().text and find_secrets() == set()
    failed = {"status": "failure", "message": "again"}
    coder("POST", f"/attempts/{claimed['attempt']['id']}/result", failed)
    assert find_secrets() == set()


def test_the_values_of_an_answer_are_for_the_agent_that_asked(
    operator: Api, coder: Api, agent: Agent
) -> None:
    """The name of a value says that it is secret."""
    made = operator("POST", "/tasks", {"agent": "coder", "type": "code"}).body
    (claimed,) = coder("POST", "/claims", {}).body["data"]
    question = {
        "question": "Which PIN?",
        "response_schema": {
            "type": "object",
            "properties": {"password": {"type": "string"}},
            "required": ["password"],
        },
    }
    coder("POST", f"/attempts/{claimed['attempt']['id']}/escalate", question)
    asked = Escalation.objects.get(task=made["id"])
    sent = {"action": "answer", "response": {"password": "swordfish"}}
    answer = operator("POST", f"/escalations/{asked.pk}/resolve", sent)
    assert answer.body["decision"]["response"] == {"password": "[redacted:secret]"}
    told = coder("GET", f"/escalations/{asked.pk}").body["resolution"]
    assert told["response"] == {"password": "swordfish"} and "swordfish" in told["instruction"]
    assert not any("swordfish" in str(row) for row in Escalation.objects.values())
    assert not any("swordfish" in str(row) for row in Event.objects.values())


def test_a_fix_without_a_secret_is_stored_once(operator: Api, task: Task) -> None:
    answer = resolve(operator, task, text="fix: Pin uuid@9")
    assert answer.body["warnings"] == []
    assert Escalation.objects.get(task=task).sealed == ""


def test_a_fix_that_held_a_secret_is_never_suggested(agent: Agent) -> None:
    """Also one that an earlier version stored in clear."""
    for number in range(4):
        fixed(agent, FIX, works=True, now=NOW + number * HOUR)
    assert {each.fix for each in Escalation.objects.exclude(fix="")} == {MASKED}
    for stored in (MASKED, FIX):
        Escalation.objects.update(fix=stored)
        (pattern,) = FailurePattern.objects.all()
        assert fixes.list_learned_fixes(pattern.pk) == []
        assert suggestions.list_worked_fixes(pattern.pk) == []
        last = make_task(
            TaskState.ESCALATED, agent=agent, now=NOW + 9 * HOUR, why={"message": MISSING}
        )
        first = suggestions.find_first_fixes([last.pk]).get(last.pk, "")
        assert "API_KEY" not in first
    Escalation.objects.update(fix="Set the key in .env")
    (learned,) = fixes.list_learned_fixes(pattern.pk)
    assert learned.counts.worked == 4  # which shows that the secret made the difference


def test_an_operation_gives_the_agents_the_words_as_typed(
    coder: Api, task: Task, operator: Api
) -> None:
    now = timezone.now()
    rows = Task.objects.filter(pk=task.pk)
    made = worlds.start("task.fix", rows, now=now, options={"fix": FIX}, reason=f"for {TOKEN}")
    assert made.options["fix"] == MASKED and find_secrets() == set()
    made = worlds.run(made, now=now)
    assert (made.changed, find_secrets()) == (1, set())
    assert FIX in coder("GET", f"/tasks/{task.pk}/retry-context").content.decode()


def test_a_lost_key_leaves_the_mask_and_a_new_one_encrypts_again(
    operator: Api, coder: Api, task: Task, settings: Settings
) -> None:
    old = settings.SECRET_KEY
    resolve(operator, task)
    asked = Escalation.objects.get(task=task)

    def told() -> str:
        return str(coder("GET", f"/escalations/{asked.pk}").body["resolution"]["instruction"])

    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 50, [old]
    assert told() == FIX
    call_command("reencrypt_channels")
    settings.SECRET_KEY_FALLBACKS = []
    assert told() == FIX
    asked.refresh_from_db()
    assert encryption.is_current(asked.sealed)
    settings.SECRET_KEY = "o" * 50
    assert told() == MASKED
    assert MASKED in coder("GET", f"/tasks/{task.pk}/retry-context").content.decode()


@pytest.mark.django_db(transaction=True)
def test_an_export_has_neither_the_secret_nor_its_cipher(
    operator: Api, task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resolve(operator, task)
    sealed = Escalation.objects.get(task=task).sealed
    path = tmp_path / "default.jsonl"
    call_command("project", "export", "default", str(path))
    text = path.read_text() + capsys.readouterr().out
    assert MASKED in text and not LEFT.search(text) and sealed not in text


# ---- the page


@pytest.fixture
def browser(admin_client: Client) -> Client:
    return admin_client


def test_the_page_says_what_it_does_with_a_secret(browser: Client, task: Task) -> None:
    asked = Escalation.objects.get(task=task)
    path = f"/escalations/{asked.pk}/"
    typed = browser.post(f"{path}preview/", {"fix": FIX})
    assert WARNING.replace("'", "&#x27;") in typed.content.decode()
    plain = browser.post(f"{path}preview/", {"fix": "Pin uuid@9"})
    assert "contain a secret" not in plain.content.decode()
    form = {"action": "fix", "fix": FIX, "version": str(asked.version)}
    browser.post(f"{path}answer/", form)
    page = browser.get(path, {"list": "closed"}).content.decode()
    assert MASKED in page and "which is masked here" in page and not LEFT.search(page)
    undone = browser.post(f"{path}undo/", headers={"HX-Request": "true"}).content.decode()
    assert FIX in undone and WARNING.replace("'", "&#x27;") in undone


def test_an_instruction_is_warned_about_in_other_words(browser: Client, agent: Agent) -> None:
    now = timezone.now()
    id = send(agent, max_retries=0, on_failed="escalate", now=now - timedelta(minutes=1))
    pull(agent, now=now - timedelta(minutes=1))
    tick(now)
    asked = Escalation.objects.get(instruction=id)
    typed = browser.post(f"/escalations/{asked.pk}/preview/", {"fix": FIX}).content.decode()
    assert "everyone in this project can read it" in typed
