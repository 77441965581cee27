"""The pages of standing instructions: the list, one rule, and the form with its trial."""

import json
import re
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from ledger.instructions import acknowledge_instruction
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Instruction, StandingInstruction
from ledger.signal_matching import report_signal
from ledger.standing_instructions.editing import On, pause_rules
from ledger.tokens import TrustedCaller
from retries.tasks.holds import hold_stop
from tests.dashboard.seen import html, key, rows, said, words
from tests.factories import make_agent, make_project, pull, tick
from tests.ledger.standing_instructions.rules import make_rule

pytestmark = pytest.mark.django_db

URL = "/instructions/standing/"
NEW = f"{URL}new/"
HOSTILE = "<script>alert(1)</script> " + "w" * 300
FORM = {
    "event": "signal",
    "signal": "fs_write",
    "match_field_0": "path",
    "match_op_0": "glob",
    "match_value_0": "src/**",
    "content": "Run the tests after changing code.",
    "expect": "signal",
    "expect_type": "fs_command",
    "expect_field_0": "line",
    "expect_value_0": "make test",
    "max_retries": "3",
    "on_failed": "escalate",
    "hold_stop": "on",
    "once_per": "attempt",
    "rows": "1",
    "expect_rows": "1",
}
SAMPLE = json.dumps({"type": "fs_write", "data": {"path": "src/a.py", "tool": "Edit"}})


def write(agent: Agent, path: str = "src/a.py", *, now: datetime) -> None:
    caller = TrustedCaller(SYSTEM, agent=agent)
    report_signal("fs_write", {"path": path, "tool": "Edit"}, caller=caller, now=now)


def follow(agent: Agent, *, now: datetime) -> None:
    row = Instruction.objects.filter(agent=agent).order_by("-id")[0]
    acknowledge_instruction(row.id, now=now)


def test_the_list_shows_how_often_each_rule_was_followed(
    browser: Client, agent: Agent, now: datetime
) -> None:
    rule, gemini = make_rule(hold_stop=True), make_agent("gemini")
    make_rule("Never sent", on=On(event="session_start"), expect=None)
    make_rule("A draft", paused=True)
    at = now - timedelta(hours=1)
    write(agent, now=at)
    follow(agent, now=at + timedelta(seconds=9))
    write(agent, now=at)
    pull(agent, now=at)
    tick(at + timedelta(minutes=1))
    follow(agent, now=at + timedelta(minutes=2))
    write(gemini, now=at)
    for _ in range(8):
        hold_stop(gemini, stamp=Stamp(SYSTEM, now))
    page = browser.get(URL)
    text = words(page)
    assert rows(page, "rule")[0] == str(rule.id)
    assert "3 sent in 7 d" in text and "67 % followed" in text and "7 stops held" in text
    assert "1 let go after 7 holds" in text
    assert "after 7 holds" in words(browser.get("/instructions/", {"q": "state:failed"}))
    assert "after fs_write in src/** expects fs_command make test" in text
    assert "First sending 1" in text and "Again 1" in text and "Gave up 1" in text
    assert "All 3" in text and "On 2" in text and "Draft 1" in text
    assert rows(browser.get(URL, {"q": "state:draft"}), "rule") != rows(page, "rule")
    assert rows(browser.get(URL, {"q": "holds:yes followed:<70%"}), "rule") == [str(rule.id)]
    assert rows(browser.get(URL, {"q": "followed:>70%"}), "rule") == []
    assert len(rows(browser.get(URL, {"q": "never"}), "rule")) == 1
    assert len(rows(browser.get(URL, {"q": "-state:draft"}), "rule")) == 2
    assert rows(browser.get(URL, {"q": str(rule.id)}), "rule") == [str(rule.id)]
    assert "“followed:x” is not a share" in words(browser.get(URL, {"q": "followed:x"}))
    assert rows(browser.get(URL, {"sort": "name"}), "rule")[-1] == str(rule.id)


def test_an_empty_project_says_what_rules_do(browser: Client, project: object) -> None:
    text = words(browser.get(URL))
    assert "No rules yet" in text and "New rule" in text


def test_the_page_of_a_rule_shows_its_record(browser: Client, agent: Agent, now: datetime) -> None:
    rule = make_rule(hold_stop=True)
    at = now - timedelta(hours=1)
    write(agent, now=at)
    hold_stop(agent, stamp=Stamp(SYSTEM, at))
    follow(agent, now=at + timedelta(seconds=41))
    write(agent, "src/b.py", now=now)
    page = browser.get(f"{URL}{rule.id}/")
    text = words(page)
    assert "After fs_write in src/** , every agent in default is told this" in text
    assert "coder wrote src/a.py, with Edit" in text and "41 s" in text
    assert "2 sent, 100% followed" in text and "holds it, 7 times at most" in text
    assert "1 open instruction stays open and still holds the stop until it is followed" in text
    assert "created the rule" in text
    instruction = Instruction.objects.order_by("id")[0]
    trail = words(browser.get(f"/instructions/{instruction.id}/"))
    assert "Sent by a rule: wrote src/a.py, with Edit" in trail
    assert "Held the stop of coder 1" in trail and f"{URL}{rule.id}/" in html(
        browser.get(f"/instructions/{instruction.id}/")
    )
    month = words(browser.get(f"{URL}{rule.id}/", {"days": "30"}))
    assert "2 sent" in month
    assert browser.get(f"{URL}{UUID(int=0)}/").status_code == 404
    since = key(page)
    part = browser.get(f"{URL}{rule.id}/", {"since": since}, headers={"HX-Request": "true"})
    assert part.status_code == 204


def test_a_rule_is_paused_resumed_and_retired(browser: Client, agent: Agent) -> None:
    rule = make_rule()
    page = f"{URL}{rule.id}/"
    assert said(browser, f"{page}pause/", {}).startswith("Paused.")
    assert said(browser, f"{page}pause/", {}).startswith("Nothing changed")
    assert said(browser, f"{page}resume/", {}) == "The rule is on."
    asked = browser.post(f"{page}retire/")
    assert asked["Location"] == f"{page}?ask=retire"
    assert "Retire this rule permanently?" in words(browser.get(f"{page}?ask=retire"))
    assert said(browser, f"{page}retire/", {"confirmed": "yes"}).startswith("Retired.")
    assert rows(browser.get(URL), "rule") == []
    text = words(browser.get(page))
    assert "Retired" in text and "Retire rule" not in text
    assert browser.get(f"{page}edit/").status_code == 404
    assert browser.post(f"{page}explode/").status_code == 404
    assert browser.get(f"{page}pause/").status_code == 405
    told = Event.objects.filter(subject_id=rule.id, actor_name="mara").order_by("id")
    assert [each.kind.rpartition(".")[2] for each in told] == ["paused", "resumed", "retired"]
    feed = browser.get("/activity/")
    assert "retired the rule" in words(feed) and page in html(feed)


def test_a_rule_is_tried_and_then_saved(browser: Client, agent: Agent) -> None:
    fires = browser.post(NEW, FORM | {"try": "yes", "sample": SAMPLE})
    assert "It would fire" in words(fires) and "path src/a.py is in src/**" in words(fires)
    other = SAMPLE.replace("src/a.py", "tests/a.py")
    misses = words(browser.post(NEW, FORM | {"try": "yes", "sample": other}))
    assert "It would not fire" in misses and "path tests/a.py is not in src/**" in misses
    assert not StandingInstruction.objects.exists() and not Event.objects.filter(
        kind__startswith="standing"
    )
    broken = browser.post(NEW, FORM | {"try": "yes", "sample": "{"})
    assert "The sample is not valid JSON" in html(broken, 422)
    assert said(browser, NEW, FORM | {"save": "yes"}) == "The rule is on."
    rule = StandingInstruction.objects.get()
    assert (rule.state, rule.match, rule.expect_match, rule.once_per, rule.hold_stop) == (
        "active",
        {"path": {"glob": "src/**"}},
        {"line": "make test"},
        "attempt",
        True,
    )
    assert rule.created_by_name == "mara"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"content": " "}, "must not be blank"),
        ({"match_field_0": "line", "match_value_0": "make *"}, "A glob works on 'path' alone"),
        ({"match_value_0": "/src"}, "relative to the project's folder"),
        ({"signal": ""}, "Name the type of the signal"),
        ({"agent": "nobody"}, "No agent is called 'nobody'"),
        ({"event": "task_claimed", "plan": "99-01"}, "There is no plan 99-01"),
        ({"event": "every", "minutes": "x", "once_per": "trigger"}, "Enter a whole number"),
        ({"event": "every", "minutes": "15", "once_per": "day"}, "leave out once_per"),
        ({"max_retries": "99"}, "from 0 to 20"),
        ({"expect_type": ""}, "type must have 1 to 64 characters"),
        ({"event": "teatime"}, "event is one of"),
    ],
)
def test_what_is_refused_stands_at_its_field_and_nothing_is_lost(
    browser: Client, agent: Agent, change: dict[str, str], problem: str
) -> None:
    response = browser.post(NEW, FORM | change | {"save": "yes"})
    assert response.status_code == 422 and not StandingInstruction.objects.exists()
    page = html(response, 422)
    assert problem in page and "Fix the marked fields" in page
    kept = FORM | change
    assert kept["content"].strip() in page and f'value="{kept["expect_value_0"]}"' in page


def test_a_recipe_fills_what_no_one_typed(browser: Client, agent: Agent) -> None:
    tests = html(browser.post(NEW, {"recipe": "tests"}))
    assert 'value="src/**"' in tests and "Run the tests after changing code." in tests
    mine = FORM | {"content": "My own words", "from_recipe": "tests", "recipe": "docs"}
    docs = html(browser.post(NEW, mine))
    assert 'value="**/openapi.json"' in docs and "My own words" in docs
    more = html(browser.post(NEW, FORM | {"more": "yes"}))
    assert 'name="match_field_1"' in more
    assert not StandingInstruction.objects.exists()


def test_a_rule_is_changed_unless_another_person_was_faster(browser: Client, agent: Agent) -> None:
    rule = make_rule(on=On(event="signal", type="fs_command", match={"code": 3, "ok": True}))
    edit = f"{URL}{rule.id}/edit/"
    page = html(browser.get(edit))
    assert 'value="3"' in page and 'value="true"' in page and "Save and turn on" not in page
    assert said(browser, edit, FORM | {"version": "1", "save": "yes"}) == "The rule is changed."
    rule.refresh_from_db()
    assert (rule.version, rule.signal_type) == (2, "fs_write")
    late = browser.post(edit, FORM | {"version": "1", "save": "yes", "content": "Mine"})
    assert "Someone has changed this rule meanwhile" in html(late, 422)
    pause_rules([rule.id], stamp=Stamp(SYSTEM))
    rule.refresh_from_db()
    assert rule.state == "paused" and rule.content != "Mine"


def test_projects_and_strangers(browser: Client, agent: Agent) -> None:
    make_rule("Here")
    make_rule("There", project=make_project("elsewhere"))
    assert len(rows(browser.get(URL), "rule")) == 2
    assert len(rows(browser.get(URL, {"project": "elsewhere"}), "rule")) == 1
    browser.post(NEW, FORM | {"project": "elsewhere", "draft": "yes"})
    made = StandingInstruction.objects.order_by("-id")[0]
    assert (made.project.name, made.state) == ("elsewhere", "draft")
    stranger = Client()
    for path in (URL, NEW, f"{URL}{made.id}/", f"{URL}{made.id}/edit/"):
        assert stranger.get(path)["Location"].startswith("/sign-in/")
    assert stranger.post(NEW, FORM | {"save": "yes"})["Location"].startswith("/sign-in/")
    assert stranger.post(f"{URL}{made.id}/resume/").status_code == 302
    made.refresh_from_db()
    assert made.state == "draft"


def test_hostile_text_stays_text(browser: Client, agent: Agent, now: datetime) -> None:
    rule = make_rule(HOSTILE, on=On(event="signal", type="x", match={"a`b": HOSTILE}), expect=None)
    caller = TrustedCaller(SYSTEM, agent=agent)
    report_signal("x", {"a`b": HOSTILE, "path": HOSTILE}, caller=caller, now=now)
    for path in (URL, f"{URL}{rule.id}/", f"{URL}{rule.id}/edit/", "/activity/"):
        raw = browser.get(path).content.decode()
        assert "<script>alert" not in raw and "&lt;script&gt;alert" in raw
    sample: dict[str, Any] = {"type": "x", "data": {"path": HOSTILE}}
    form = FORM | {"try": "yes", "content": HOSTILE, "signal": "x", "sample": json.dumps(sample)}
    assert "<script>alert" not in browser.post(NEW, form).content.decode()


def test_people_who_may_only_read_get_no_buttons(agent: Agent) -> None:
    """One line says so instead, and the actions refuse them as well."""
    rule, eve = make_rule(), User.objects.create_user("eve", is_staff=True)
    client = Client()
    client.force_login(eve)
    eve.user_permissions.add(Permission.objects.get(codename="view_standinginstruction"))
    for path in ("", f"{rule.id}/"):
        page = client.get(f"{URL}{path}")
        assert "does not have the permission “Can add standing instruction”" in words(page) or path
        for marker in ("/pause/", "/retire/", "/edit/", 'id="new-rule"', ">New rule"):
            assert marker not in html(page).partition("<main")[2].partition("</main>")[0]
    assert client.post(f"{URL}{rule.id}/pause/").status_code == 403
    eve.user_permissions.add(
        *Permission.objects.filter(
            codename__in=("change_standinginstruction", "add_standinginstruction")
        )
    )
    for path in ("", f"{rule.id}/"):
        text = html(client.get(f"{URL}{path}"))
        assert "You can read this page" not in text and "/pause/" in text and "/edit/" in text


def test_a_change_of_the_rule_is_marked_in_its_chart(
    browser: Client, agent: Agent, now: datetime
) -> None:
    rule = make_rule()
    write(agent, now=now)
    follow(agent, now=now)
    said(browser, f"{URL}{rule.id}/pause/", {})
    page = html(browser.get(f"{URL}{rule.id}/"))
    marks = re.findall(r'<g class="change">\s*<title>(.*?)</title>\s*<line x1="([\d.]+)%"', page)
    assert [text.partition(": ")[2] for text, _ in marks][-1].endswith("paused the rule")
    assert 85.7 <= float(marks[-1][1]) <= 100  # today, the last of seven days


def test_a_trial_shows_what_the_last_signals_would_do(
    browser: Client, agent: Agent, now: datetime
) -> None:
    make_rule()
    make_rule("Read it.", on=On(event="signal", type="fs_write", match={"tool": "Edit"}))
    write(agent, "src/old.py", now=now)
    form = {
        "event": "signal",
        "signal": "fs_write",
        "content": "Say it.",
        "expect": "ack",
        "match_field_0": "path",
        "match_op_0": "glob",
        "match_value_0": "docs/**",
        "max_retries": "1",
        "on_failed": "record",
        "once_per": "trigger",
        "try": "yes",
        "sample": '{"type": "fs_write", "data": {"path": "docs/a.md"}}',
    }
    text = words(browser.post(f"{URL}new/", form))
    assert "It would fire" in text and "Tried before" in text
    assert "It would not fire: path src/old.py is not in docs/**" in text
