"""Dead letters over HTTP."""

from typing import Any
from uuid import uuid4

import pytest

from ledger.models import Agent, DeadLetter, Task
from tests.factories import NOW
from tests.retries import moves
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db


def test_dead_letters_are_replayed_or_dismissed(coder: Any, operator: Any) -> None:
    for _ in range(2):
        enqueue(operator, max_attempts=1)
        at = claim(coder)["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    one, two = (str(letter.pk) for letter in DeadLetter.objects.order_by("id"))
    replayed = operator("POST", f"/dead-letters/{one}/replay").body
    assert replayed["closed_as"] == "replayed"
    assert claim(coder)["data"][0]["task"]["id"] == replayed["replayed_as"]
    gone = operator("POST", f"/dead-letters/{two}/dismiss", {"note": "old"}).body
    assert (gone["closed_as"], gone["note"]) == ("dismissed", "old")
    again = operator("POST", f"/dead-letters/{two}/replay")
    assert (again.status_code, again.body["code"]) == (409, "invalid_transition")
    assert coder("POST", f"/dead-letters/{one}/replay").status_code == 403
    assert len(operator("GET", "/dead-letters?state=open").body["data"]) == 0
    assert operator("GET", f"/dead-letters/{two}").body == gone
    assert operator("GET", f"/dead-letters/{uuid4()}").status_code == 404


def test_a_dead_letter_of_an_aborted_plan_is_not_replayed(coder: Any, operator: Any) -> None:
    task = {"action": "do it", "max_attempts": 1, "on_exhausted": "dead_letter"}
    made = operator("POST", "/plans", {"ref": "03-01", "agent": "coder", "tasks": [task, task]})
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    operator("POST", f"/plans/{made.body['plan']['id']}/abort")
    refused = operator("POST", f"/dead-letters/{DeadLetter.objects.get().pk}/replay")
    assert (refused.status_code, refused.body["code"]) == (409, "invalid_transition")
    assert "Restart the plan" in refused.body["detail"]
    assert (refused.body["current"], refused.body["allowed"]) == ("open", ["dismissed"])
    bulk = operator("POST", "/dead-letters/bulk", {"action": "replay", "type": "auto"}).body
    assert "Restart the plan" in bulk["not_done"][0]["reason"] and len(bulk["not_done"]) == 1
    assert bulk["changed"] == 0 and Task.objects.filter(state="queued").count() == 0


def test_dead_letters_in_bulk(coder: Any, operator: Any) -> None:
    for type in ("code", "code", "review"):
        enqueue(operator, type=type, max_attempts=1)
        at = claim(coder)["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    bulk = "/dead-letters/bulk"
    counted = operator("POST", bulk, {"action": "replay", "type": "code", "dry_run": True}).body
    assert (counted["matched"], counted["changed"]) == (2, 0)
    done = operator("POST", bulk, {"action": "replay", "type": "code"}).body
    assert (done["matched"], done["changed"]) == (2, 2)
    again = operator("POST", bulk, {"action": "dismiss", "ids": done["ids"]}).body
    assert (again["matched"], again["changed"]) == (0, 0)
    assert [row["id"] for row in again["not_done"]] == done["ids"]
    assert {row["reason"] for row in again["not_done"]} == {"It is already replayed."}
    for unclear in ({}, {"note": "old"}, {"all": True, "type": "code"}, {"all": True, "ids": []}):
        refused = operator("POST", bulk, {"action": "dismiss"} | unclear)
        assert (refused.status_code, refused.body["code"]) == (422, "validation_error")
    assert DeadLetter.objects.open().count() == 1
    unknown = {"action": "dismiss", "ids": [str(uuid4())]}
    assert "visible to this token" in operator("POST", bulk, unknown).body["not_done"][0]["reason"]
    rest = operator("POST", bulk, {"action": "dismiss", "all": True}).body
    assert (rest["changed"], rest["not_done"]) == (1, [])
    assert Task.objects.filter(state="queued").count() == 2


def test_one_call_closes_the_oldest_hundred(operator: Any, agent: Agent) -> None:
    for _ in range(102):
        moves.make_task(agent, max_attempts=1)
        attempt = moves.attempt_of(moves.claim(agent))
        moves.fail(agent, attempt, now=NOW, type="verification_failed")
    ids = [str(id) for id in DeadLetter.objects.order_by("id").values_list("pk", flat=True)]
    bulk, everything = "/dead-letters/bulk", {"action": "replay", "all": True}
    counted = operator("POST", bulk, everything | {"dry_run": True}).body
    assert (counted["matched"], counted["changed"], counted["left"]) == (102, 0, 2)
    first = operator("POST", bulk, everything).body
    assert (first["matched"], first["changed"], first["left"]) == (102, 100, 2)
    assert first["ids"] == ids[:100] and first["not_done"] == []
    assert Task.objects.filter(state="queued").count() == 100
    second = operator("POST", bulk, everything).body
    assert (second["matched"], second["changed"], second["left"]) == (2, 2, 0)
    assert second["ids"] == ids[100:] and not DeadLetter.objects.open().exists()
