"""Exports: exactly the filtered list, of every list, in constant memory."""

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.test import Client
from django.urls import reverse

from config.requests.web_threads import WHOLE_RESPONSE
from dashboard.completion import lists as completion
from dashboard.escalations import export_views
from dashboard.frame.access import PAGES
from dashboard.lists import export as exports
from dashboard.saved_views.strip import BUILT_IN
from ledger.journal import SYSTEM
from ledger.models import Agent, DeadLetter
from ledger.signal_matching import report_signal
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries.models import Escalation
from tests.dashboard.notifications.deliveries import make_channel, make_delivery
from tests.dashboard.seen import html, rows
from tests.dashboard.sessions.conversations import make_busy_session
from tests.dashboard.worked import buried, copy_task, make_plan, make_task
from tests.factories import make_agent, make_project, send
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.operations.worlds import make_person
from tests.retries.operations.worlds import start as start_operation
from tests.retries.permissions.asking import make_rule as make_permission_rule

pytestmark = pytest.mark.django_db

ROWS = 20_000
# far less than the rows take together, far more than one chunk of them
MOST_BYTES = 12_000_000


def export(browser: Client, noun: str, form: str, query: dict[str, str]) -> str:
    response = browser.get(reverse(f"dashboard:{noun}_export", args=[form]), query)
    assert response.status_code == 200 and "attachment" in response["Content-Disposition"]
    return b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]


@pytest.fixture
def world(agent: Agent, now: datetime) -> Agent:
    """Rows of two agents in every list, in several states."""
    start = now - timedelta(minutes=5)
    for each, error, part in ((agent, "no disk", 1), (make_agent("codex"), "no route", 2)):
        make_plan(f"0{part}-01", [("One", []), ("Two", [1])], now=now, agent=each)
        make_busy_session(each, now=now)
        for number in range(3):
            send(each, f"Instruction {number}", now=start)
            make_task(TaskState.ESCALATED, f"Task {number}", agent=each, now=start)
            make_task(TaskState.DONE, agent=each, now=start)
            buried(f"Letter {number}", agent=each, now=start, error=f"{error} {number}")
            make_rule(f"Rule {9 - number}", agent=each, hold_stop=True)
        channel = make_channel(f"{each.name} mirror", now=now)
        for code in (200, 503):
            make_delivery(channel, codes=(code,), now=start, project=agent.project)
        for verdict in (True, False):
            make_permission_rule(each, "npm test", allows=verdict, for_all=False, now=now)
    letters = DeadLetter.objects.order_by("id")
    for name, reason in (("mara", "no disk"), ("mara", "disk again"), ("jonas", "no disk")):
        by = User.objects.filter(username=name).first() or make_person(name)
        start_operation("dead_letter.dismiss", letters, by=by, now=now, reason=reason)
    return agent


# the parameters of a list's address, and what the ids of its rows begin with
LISTS = {
    "tasks": ({"q": "agent:coder -state:done"}, "task"),
    "instructions": ({"q": "agent:coder", "sort": "sent"}, "ins"),
    "escalations": ({"q": "agent:coder Task", "group": "none", "sort": "oldest"}, "esc"),
    "deadletters": ({"q": "agent:coder disk", "group": "time", "sort": "-attempts"}, "dead"),
    "patterns": ({"q": "agent:coder state:all", "sort": "first"}, "pattern"),
    "plans": ({"q": "agent:coder created:1d", "sort": "title"}, "plan"),
    "sessions": ({"q": "agent:coder", "sort": "messages"}, "session"),
    "activity": ({"q": "agent:coder kind:task.completed"}, "ev"),
    "agents": ({"q": "coder"}, "agent"),
    "rules": ({"q": "agent:coder holds:yes", "sort": "name"}, "rule"),
    "permission_rules": ({"q": "agent:coder verdict:allow", "sort": "call"}, "permission-rule"),
    "deliveries": ({"q": "channel:mirror code:5xx", "sort": "sent"}, "delivery"),
    "operations": ({"q": "by:mara disk", "sort": "started"}, "op"),
}


def test_an_export_equals_the_list_under_its_filter(browser: Client, world: Agent) -> None:
    for noun, (query, of) in LISTS.items():
        response = browser.get(reverse(f"dashboard:{noun}"), query)
        listed = rows(response, of)
        everything = rows(browser.get(reverse(f"dashboard:{noun}"), query | {"q": ""}), of)
        assert listed and len(listed) < len(everything), noun
        lines = [json.loads(line) for line in export(browser, noun, "jsonl", query).splitlines()]
        assert [line["id"] for line in lines] == listed, noun
        table = list(csv.DictReader(io.StringIO(export(browser, noun, "csv", query))))
        assert [row["id"] for row in table] == listed, noun
        assert [list(row) for row in table] == [list(line) for line in lines], noun
        page, address = html(response), reverse(f"dashboard:{noun}_export", args=["csv"])
        assert f'href="{address}?' in page and urlencode({"q": query["q"]}) in page, noun

        refused = browser.get(address, {"q": "agnet:coder"})
        assert refused.status_code == 400 and "Nothing was exported" in refused.content.decode()
        assert browser.get(reverse(f"dashboard:{noun}_export", args=["pdf"])).status_code == 404


def test_every_list_with_a_filter_has_an_export_and_views() -> None:
    """What completes keys is a list with a filter."""
    assert set(completion.LISTS) == set(BUILT_IN) == {*LISTS, "audit"}
    assert {f"{noun}_export" for noun in (*completion.LISTS, "insight")} == {
        name for name in PAGES if name.endswith("_export")
    }


def test_an_export_refuses_a_filter_that_means_other_rows(browser: Client, world: Agent) -> None:
    """As does each export, a name that the list would pass over is named with the nearest one."""
    for noun in set(LISTS) - {"operations"}:
        key, known, unknown = ("agent", "coder", "codre")
        if noun == "deliveries":
            key, known, unknown = ("channel", "codex", "codexmiror")
        address = reverse(f"dashboard:{noun}_export", args=["csv"])
        for query in (f"{key}:{known},{unknown}", f"-{key}:{unknown}"):
            refused = browser.get(address, {"q": query})
            said = f"Nothing was exported. Unknown {key} “{unknown}”. Did you mean “{key}:"
            page = refused.content.decode()
            assert refused.status_code == 400 and page.startswith(said), (noun, query)
            assert f"{key}:{known}" in page.replace('"', ""), (noun, query)
        nothing = browser.get(address, {"q": f"{key}:{unknown}"})
        assert nothing.status_code == 200, f"{noun}: it finds nothing"


def test_the_export_of_deliveries_is_of_the_project_and_without_bodies(
    browser: Client, world: Agent, now: datetime
) -> None:
    other = make_channel("Elsewhere", project=make_project("other"), now=now)
    make_delivery(other, now=now, title="=HYPERLINK(1)", body={"secret": "kept back"})
    text = export(browser, "deliveries", "csv", {"project": "other"})
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["channel"], row["title"], row["code"]) == ("Elsewhere", "'=HYPERLINK(1)", "200")
    assert "kept back" not in text
    assert "Elsewhere" not in export(browser, "deliveries", "csv", {"project": "default"})


def test_the_export_of_rules_has_the_figures_of_seven_days(
    browser: Client, agent: Agent, now: datetime
) -> None:
    rule = make_rule("Run the tests", agent=agent)
    signal = {"path": "src/a.py", "tool": "Edit"}
    report_signal("fs_write", signal, caller=TrustedCaller(SYSTEM, agent=agent), now=now)
    [line] = map(json.loads, export(browser, "rules", "jsonl", {}).splitlines())
    assert (line["id"], line["agent"], line["state"]) == (str(rule.pk), "coder", "on")
    assert (line["sent"], line["followed"], line["signal_type"]) == (1, 0, "fs_write")
    assert line["match"] == rule.match and line["last_sent_at"]


@pytest.mark.parametrize("state", ["snoozed", "answered"])
def test_the_lists_beside_the_inbox_are_exported(
    browser: Client, world: Agent, now: datetime, state: str
) -> None:
    for number, each in enumerate(Escalation.objects.order_by("id")[:4]):
        path, form = f"/escalations/{each.pk}/", {"action": "retry", "version": str(each.version)}
        if number % 2:
            browser.post(f"{path}snooze/", {"until": "hour"})
        else:
            browser.post(f"{path}answer/", form)
    listed = rows(browser.get("/escalations/", {"state": state}), "esc")
    assert len(listed) == 2
    for query, found in {"": listed, listed[1]: listed[1:], "no such words": []}.items():
        params = {"state": state, "q": query}
        text = export(browser, "escalations", "jsonl", params)
        assert [json.loads(line)["id"] for line in text.splitlines()] == found
        assert rows(browser.get("/escalations/", params), "esc") == found


def test_the_inbox_is_exported_in_its_order(
    browser: Client, world: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_views, "CHUNK", 2)
    for group, sort in product(["none", "agent"], ["", "newest"]):
        query = {"group": group, "sort": sort}
        listed = rows(browser.get("/escalations/", query), "esc")
        text = export(browser, "escalations", "jsonl", query)
        assert [json.loads(line)["id"] for line in text.splitlines()] == listed, query
        assert len(listed) > 2, query


def test_a_long_list_is_exported_in_constant_memory(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """No more than a few chunks of the rows are in memory at once."""
    make_task(TaskState.FAILED, agent=agent, now=now, why={"message": "x" * 2_000})
    copy_task(ROWS - 1)
    response = browser.get("/tasks/export/csv/", {"q": "agent:coder"})
    lines = length = 0
    tracemalloc.start()
    try:
        for chunk in response.streaming_content:  # type: ignore[attr-defined]
            lines += chunk.count(b"\n")
            length += len(chunk)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines == ROWS + 1 and length > 3 * MOST_BYTES
    assert most < MOST_BYTES


def test_an_error_before_the_first_byte_is_an_error() -> None:
    """The web server sends nothing before that, and answers with a 500."""
    assert exports.UNSENT == WHOLE_RESPONSE

    def read(size: int) -> Iterator[bytes]:
        yield b"x" * size
        raise DatabaseError("the connection is gone")

    with pytest.raises(DatabaseError):
        list(exports.mark_incomplete(read(WHOLE_RESPONSE), b"cut"))
    *_, last = exports.mark_incomplete(read(WHOLE_RESPONSE + 1), b"cut")
    assert last == b"cut"
