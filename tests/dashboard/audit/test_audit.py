"""The audit log: people's acts in the journal and in the admin, filtered and exported."""

import csv
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from dashboard.activity.filters import parse
from dashboard.audit.queries import select_events
from dashboard.frame.navigation import Scope
from dashboard.lists.pagination import PAGE
from ledger import tokens
from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Actor, Stamp, person
from ledger.journal_storage.months import list_partitions
from ledger.models import Agent, Event, Membership, Project, SavedView
from retries.models import FailurePattern
from retries.models.notification_channel import ChannelKind, DisabledBecause
from retries.notifications import channels
from retries.notifications.channels import ChannelSpec
from retries.notifications.rules import editing as rules
from retries.tasks import actions as task_actions
from tests.dashboard.notifications.deliveries import make_channel
from tests.dashboard.seen import html
from tests.dashboard.worked import buried, enqueued
from tests.factories import make_agent, make_project

URL = "/settings/audit/"
HOSTILE = "=HYPERLINK(1) <script>alert(1)</script>"


def streamed(response: HttpResponse) -> str:
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]


def log_in_admin(user: User, agent: Agent, text: str) -> LogEntry:
    return LogEntry.objects.create(
        user=user,
        content_type=ContentType.objects.get_for_model(Agent),
        object_id=str(agent.pk),
        object_repr=text,
        action_flag=CHANGE,
        change_message="Changed its system text.",
    )


def test_people_are_listed_with_reasons_and_filtered(
    agent: Agent, browser: Client, mara: User, now: datetime
) -> None:
    """Acts of people and the admin are there, the clock's and agents' are not."""
    priya = User.objects.create_superuser("priya")
    first = enqueued(agent, HOSTILE, now=now)
    second = enqueued(agent, "Second", now=now)
    stamp = Stamp(person(mara), now)
    task_actions.abort([first], reason="wrong branch", stamp=stamp)
    task_actions.skip([second], stamp=Stamp(person(priya), now))
    third = enqueued(agent, "By the clock", now=now)
    task_actions.skip([third], stamp=Stamp(SYSTEM, now))
    log_in_admin(priya, agent, HOSTILE)
    page = html(browser.get(URL))
    assert page.count('class="aud__row"') == 3 and "3 rows" in page
    assert "wrong branch" in page and "changed agent in the admin" in page
    assert "By the clock" not in page
    raw = browser.get(URL).content.decode()
    assert "<script>alert" not in raw

    for query, kinds in {
        "actor:priya": {"task.skipped", "admin.changed"},
        "kind:task": {"task.aborted", "task.skipped"},
        "kind:task.aborted": {"task.aborted"},
        f"about:{first}": {"task.aborted"},
        "until:2020-01-01": set(),
    }.items():
        text = streamed(browser.get(f"{URL}export/jsonl/", {"q": query}))
        found = {json.loads(line)["kind"] for line in text.splitlines()} - {"audit.exported"}
        assert found == kinds, query


def test_an_export_is_the_whole_filtered_log_and_an_entry_of_its_own(
    agent: Agent, browser: Client, mara: User, now: datetime
) -> None:
    ids = [enqueued(agent, f"{HOSTILE} {n}", now=now) for n in range(90)]
    for number, id in enumerate(ids):
        stamp = Stamp(person(mara), now + timedelta(seconds=number))
        task_actions.abort([id], reason="=1+1", stamp=stamp)
    exported = browser.get(f"{URL}export/csv/", {"q": "kind:task.aborted"})
    assert exported["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(StringIO(streamed(exported))))
    events = Event.objects.filter(kind="task.aborted").order_by("-id")
    assert [row["subject_id"] for row in rows] == [str(e.subject_id) for e in events]
    assert {row["reason"] for row in rows} == {"'=1+1"}
    assert Event.objects.get(kind="audit.exported").data["query"] == "kind:task.aborted"
    first = html(browser.get(URL, {"q": "kind:task.aborted"}))
    assert first.count('class="aud__row"') == 40 and "90 rows" in first
    before = first.split("before=")[1].split('"')[0].split("&")[0]
    second = html(browser.get(URL, {"q": "kind:task.aborted", "before": before}))
    shown = [part.split('"')[0] for part in (first + second).split('id="record-')[1:]]
    assert len(set(shown)) == 80 and shown == [str(e.pk) for e in events[:80]]
    assert browser.get(f"{URL}export/xml/").status_code == 404


def test_members_see_their_project_and_nothing_of_the_admin(
    agent: Agent, mara: User, now: datetime
) -> None:
    elsewhere = make_agent("other", project=make_project("elsewhere"))
    for each in (agent, elsewhere):
        id = enqueued(each, f"Of {each.project.name}", now=now)
        task_actions.skip([id], stamp=Stamp(person(mara), now))
    log_in_admin(mara, agent, "An agent")
    eve = User.objects.create_user("eve")
    Membership.objects.create(user=eve, project=agent.project, role=Role.VIEWER, added_by="mara")
    client = Client()
    client.force_login(eve)
    page = html(client.get(URL))
    assert f"Of {agent.project.name}" in page
    assert "elsewhere" not in page and "in the admin" not in page
    assert client.get(f"{URL}?project=elsewhere").status_code == 404


# ten acts of each of 500 actors
MANY_ACTS = """
insert into ledger_event (project_id, kind, subject_type, subject_id, actor_type, actor_name)
select %s, 'task.skipped', 'task', %s, %s, 'actor-' || g %% 500 from generate_series(1, 5000) g"""


def test_the_log_is_read_through_indexes(agent: Agent, mara: User, now: datetime) -> None:
    with connection.cursor() as cursor:
        # most rows are no one's acts, so an index of all rows is the larger one
        cursor.execute(MANY_ACTS, [agent.project_id, agent.pk, "system"])
        cursor.execute("analyze ledger_event")
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"set local enable_{way} = off")
    people, acts, _ = select_events(parse("kind:task", now=now), Scope(None, []))
    *_, about = select_events(parse("", now=now), Scope(None, []))
    for rows, index in ((people, "event_people"), (acts, "event_acts")):
        plan = rows.order_by("-id")[:41].explain()
        # an empty month may be read by its primary key instead
        assert any(f" {each} on " in plan for each in list_parts(index))
        assert "Seq Scan on ledger_event" not in plan
        assert plan.count("Index Scan") >= len(list_partitions())
    plan = about.order_by("-id")[:41].explain()
    assert "subject_id" in plan and "Seq Scan on ledger_event" not in plan, plan


def list_parts(index: str) -> list[str]:
    """Return an index's parts, which PostgreSQL has named itself in the months made later."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select inhrelid::regclass::text from pg_inherits where inhparent = %s::regclass",
            [index],
        )
        return [name for (name,) in cursor.fetchall()]


@pytest.mark.parametrize("type", ["user", "token"])
def test_the_acts_of_one_actor_are_found_among_many(agent: Agent, now: datetime, type: str) -> None:
    """The acts of others are not read."""
    with connection.cursor() as cursor:
        cursor.execute(MANY_ACTS, [agent.project_id, agent.pk, type])
        cursor.execute("analyze ledger_event")
    people, acts, _ = select_events(parse("actor:actor-7", now=now), Scope(None, []))
    plan = (people if type == "user" else acts).order_by("-id")[:41].explain(analyze=True)
    assert "Index Cond: ((actor_name)::text = 'actor-7'::text)" in plan
    assert "rows=10.00" in plan and "Rows Removed by Filter" not in plan


def test_what_tokens_do_to_the_work_of_others_is_in_the_log(
    agent: Agent, browser: Client, mara: User, now: datetime
) -> None:
    """An agent's own calls and the work that a token adds are not."""
    stamp = Stamp(SYSTEM, now)
    coder, _ = tokens.issue("agent", project=agent.project, agent=agent, stamp=stamp)
    _, secret = tokens.issue("operator", project=agent.project, name="ci", stamp=stamp)

    def call(path: str, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {secret}"}
        answer = Client().post(f"/v1/{path}", body, "application/json", headers=headers)
        assert answer.status_code < 300, answer.content
        return answer.json()

    first = call("tasks", {"type": "build", "agent": agent.name, "title": "First"})["id"]
    call(f"tasks/{first}/abort", {})
    own = Stamp(Actor("token", str(coder.pk), coder.name), now)
    task_actions.abort([enqueued(agent, now=now)], stamp=own)
    task_actions.skip([enqueued(agent, now=now)], stamp=Stamp(person(mara), now))

    def read(query: str) -> list[tuple[str, str]]:
        text = streamed(browser.get(f"{URL}export/jsonl/", {"q": query}))
        rows = [json.loads(line) for line in text.splitlines()]
        kinds = [(row["who"], row["kind"]) for row in rows]
        return [each for each in kinds if each[1].partition(".")[0] in ("task", "agent")]

    assert read("by:tokens") == [("ci", "task.aborted")]
    assert read("by:people") == [("mara", "task.skipped")]
    assert read("") == [("mara", "task.skipped"), ("ci", "task.aborted")]
    page = html(browser.get(URL, {"q": "by:tokens kind:task"}))
    assert re.search(r'<a[^>]+aria-current="true"\s*>Tokens <span class="num">1</span></a>', page)
    # what the others lead to is not limited by who is asked for
    assert re.search(r'<a\s+href="\?q=kind%3Atask"\s*>Anyone <span class="num">2</span></a>', page)
    assert re.search(
        r'<a\s+href="\?q=kind%3Atask\+by%3Apeople"\s*>People <span class="num">1</span></a>', page
    )


def test_assignments_comments_and_pauses_by_tokens_are_in_the_log(
    agent: Agent, browser: Client, mara: User, now: datetime
) -> None:
    stamp = Stamp(SYSTEM, now)
    _, secret = tokens.issue("operator", project=agent.project, name="ci", stamp=stamp)
    letter = buried(agent=agent, now=now)
    pattern = FailurePattern.objects.get()

    def call(method: str, path: str, body: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {secret}"}
        answer = Client().generic(
            method, f"/v1/{path}", json.dumps(body), "application/json", headers=headers
        )
        assert answer.status_code < 300, answer.content

    for path in (f"dead-letters/{letter.pk}", f"tasks/{letter.task_id}", f"patterns/{pattern.pk}"):
        call("POST", f"{path}/assign", {"user": "mara"})
        call("POST", f"{path}/assign", {"user": None})
        call("POST", f"{path}/comment", {"text": "The disk is full"})
    for paused in (True, False):
        call("PATCH", "task-types/build", {"paused": paused})
    text = streamed(browser.get(f"{URL}export/jsonl/", {"q": "actor:ci", "order": "oldest"}))
    did = [row["did"] for row in map(json.loads, text.splitlines()) if row["who"] == "ci"]
    assert len([each for each in did if "to mara" in each]) == 3, did
    assert len([each for each in did if "to no one" in each]) == 3, did
    assert len([each for each in did if "commented on 1" in each]) == 3, did
    assert len(did) == 11, did
    assert f"assigned 1 pattern ({pattern.pk}) to mara" in html(browser.get(URL))


def test_the_page_needs_few_statements(
    agent: Agent, browser: Client, mara: User, now: datetime, statements: Callable[..., int]
) -> None:
    for _ in range(PAGE + 2):
        task_actions.skip([enqueued(agent, now=now)], stamp=Stamp(person(mara), now))
    for query in ("", "agent:coder", "actor:mara", "actor:nobody", "agent:coder actor:nobody"):
        assert statements(browser, URL, {"q": query}) <= 15, query


def test_channels_rules_and_views_are_in_the_log(
    project: Project, browser: Client, mara: User
) -> None:
    """Each change is, with the names of its fields and without addresses."""
    stamp = Stamp(person(mara), timezone.now())
    url = "https://93.184.216.34/hooks/not-for-the-log"
    hook = ChannelSpec(kind=ChannelKind.WEBHOOK, name="mirror", url=url)
    id = channels.create_channel(hook, project=None, stamp=stamp).channel.pk
    channels.update_channel(id, version=None, stamp=stamp, name="mirror", events=["task.*"])
    channels.update_channel(id, version=None, stamp=stamp, name="mirror")
    channels.rotate_secret(id, stamp=stamp)
    channels.disable_channel(id, DisabledBecause.BY_HAND, stamp=stamp)
    channels.enable_channel(id, stamp=stamp)
    channels.delete_channel(id, stamp=stamp)
    oncall = make_channel("#oncall", kind="person", service="Slack", project=project, now=stamp.at)
    spec = rules.NotificationRuleSpec(conditions=("escalation",), channel=oncall)
    rule = rules.create_rule(spec, project=project, stamp=stamp)
    rules.update_rule(rule.pk, version=None, stamp=stamp, enabled=False)
    rules.delete_rule(rule.pk, stamp=stamp)
    form = {"name": "Mine", "q": "state:retry", "next": "/tasks/"}
    browser.post(f"/views/tasks/save/?project={project.name}", form)
    browser.post(f"/views/{SavedView.objects.get().pk}/delete/")
    text = streamed(browser.get(f"{URL}export/jsonl/"))
    rows = [json.loads(line) for line in text.splitlines()]
    said = [f"{row['who']} {row['did']} {row['what']}".strip() for row in rows]
    assert said[1:][::-1] == [
        "mara created the channel mirror",
        "mara changed the channel mirror events",
        "mara rotated the signing secret of the channel mirror",
        "mara switched off the channel mirror",
        "mara switched on the channel mirror",
        "mara deleted the channel mirror",
        "mara created the notification rule when an escalation opens, tell #oncall",
        "mara changed the notification rule when an escalation opens, tell #oncall off",
        "mara deleted the notification rule when an escalation opens, tell #oncall",
        "mara saved the view Mine of tasks",
        "mara deleted the view Mine of tasks",
    ]
    assert "not-for-the-log" not in text
    assert not Event.objects.filter(data__icontains="not-for-the-log").exists()


def test_tokens_and_sign_ins_are_in_the_log(agent: Agent, mara: User, browser: Client) -> None:
    """It lists what became of tokens, by people and by calls, and who signed in or was refused."""
    mara.set_password("right-one-here")
    mara.save()
    browser.force_login(mara)  # a new password ends the sessions
    stamp = Stamp(SYSTEM, timezone.now())
    token, _ = tokens.issue("operator", project=agent.project, name="ci", stamp=stamp)
    tokens.rotate(token, overlap=timedelta(), stamp=stamp)
    _, secret = tokens.issue("operator", project=agent.project, name="cd", stamp=stamp)
    letters = [str(buried(agent=agent, now=stamp.at).pk) for _ in range(2)]
    used = Client().post(
        "/v1/dead-letters/bulk",
        {"action": "dismiss", "ids": letters},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert used.status_code == 200, used.content
    visitor = Client()
    for name, password in (("mara", "wrong"), ("hunter2-typed-as-name", "x"), ("mara", "")):
        visitor.post("/sign-in/", {"username": name, "password": password})
    visitor.post("/sign-in/", {"username": "MARA", "password": "right-one-here"})
    visitor.post("/sign-in/", {"username": "mara", "password": "right-one-here"})
    visitor.post("/sign-out/")

    def read(query: str = "", client: Client = browser) -> list[tuple[str, str]]:
        text = streamed(client.get(f"{URL}export/jsonl/", {"q": query}))
        rows = [json.loads(line) for line in text.splitlines()]
        return [(row["who"], row["kind"]) for row in rows if row["kind"] != "audit.exported"]

    every = [kind for _, kind in read()]
    assert every.count("token.created") == 2 and "token.rotated" in every
    assert "token.used_in_bulk" in every
    assert read("actor:mara")[:2] == [("mara", "sign_in.signed_out"), ("mara", "sign_in.signed_in")]
    assert {kind.partition(".")[0] for _, kind in read("by:people")} == {"sign_in"}
    for query in ("by:tokens", "by:tenfour", "-by:people"):
        assert not [kind for _, kind in read(query) if kind.startswith("sign_in.")], query
    assert read("kind:token") == [row for row in read() if row[1].startswith("token.")]
    assert every.count("sign_in.refused") == 4
    assert {who for who, kind in read() if kind == "sign_in.refused"} == {"mara", "no account"}
    page = html(browser.get(URL))
    assert "dismissed 2 rows with one call" in page and "was refused at sign-in" in page
    assert "hunter2" not in page
    eve = User.objects.create_user("eve")
    Membership.objects.create(user=eve, project=agent.project, role=Role.VIEWER, added_by="mara")
    member = Client()
    member.force_login(eve)
    seen = [kind for _, kind in read(client=member)]
    assert "token.rotated" in seen and not any(kind.startswith("sign_in.") for kind in seen)
