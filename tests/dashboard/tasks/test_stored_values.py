"""Tasks searched by the declared keys of their payloads and results."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from dashboard.lists.nearest_names import list_problems
from dashboard.tasks.filters import parse
from dashboard.tasks.listing import common_words, counts, order
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Project, Task
from ledger.models.bookkeeping import TaskValue
from ledger.states import TaskState
from ledger.tasks import Change
from ledger.tokens import TrustedCaller
from ledger.values.ids import LAST_ID
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.journal_readers import new_words, stored_values
from retries.policies.editing import change_policies
from retries.retention import task_rows
from retries.tasks import actions
from tests.conftest import Api
from tests.dashboard.seen import words
from tests.dashboard.worked import claimed, enqueued
from tests.factories import make_agent, make_project
from tests.ledger.api.test_instructions import problem
from tests.secret_texts import TOKEN

pytestmark = pytest.mark.django_db
KEYS = ["payload.order", "payload.customer.id", "result.invoice"]
NAMES = st.sampled_from(["a", "b", "id"])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["1", "true", "null", 'é\n"\\', "x" * 200, "x" * 201, "[redacted:key]", "%_"]),
)
PAYLOADS = st.recursive(
    LEAVES, lambda each: st.lists(each, max_size=25) | st.dictionaries(NAMES, each), max_leaves=40
)
DIFFERENT = """with stored as (select ledger_stored_values(%(payload)s, %(result)s, %(key)s) v)
select v from (select unnest(%(values)s::text[]) v union select v from stored) each
where ledger_has_value(%(payload)s, %(result)s, %(key)s, v)
    is distinct from v in (select v from stored)"""


@pytest.fixture
def project(project: Project) -> Project:
    declared = declare(project, KEYS)
    stored_values.fill()
    declared.refresh_from_db()
    return declared


def declare(project: Project, keys: list[str]) -> Project:
    stamp = Stamp(SYSTEM, timezone.now())
    return change_policies(project, {}, search_keys=keys, stamp=stamp).project


def write_values() -> None:
    """Write the digests of all tasks; the clock reads events only once they are settled."""
    Project.objects.update(fills_values_before=LAST_ID)
    stored_values.fill()


def find(text: str, project: Project | None = None) -> set[UUID]:
    """Return the tasks of a list, which its export, its counts and a walk find, too."""
    query = parse(text)
    assert not query.problems, query.problems
    found = set(order.order_all(query, project, "").values_list("pk", flat=True))
    for sort in ("", "-created", "agent"):
        assert set(order.list_ids(query, project, sort, before=None, after=None)) == found
    assert counts.count_by_state(query, project, common=False)[0].get("queued", 0) == len(
        Task.objects.filter(pk__in=found, state="queued")
    )
    walked = set(common_words.list_newest(query, project, 100).values_list("pk", flat=True))
    is_filled = not Project.objects.exclude(fills_values_before=None).exists()
    assert walked == found if is_filled else walked >= found
    return found


@pytest.mark.django_db(transaction=True)
def test_a_key_finds_the_tasks_with_a_value_written_or_not(
    agent: Agent, project: Project, now: datetime
) -> None:
    one = enqueued(agent, now=now, payload={"order": 1284, "customer": {"id": "acme"}})
    many = enqueued(agent, now=now, payload={"order": ["1284", 7, {"deep": 1}, None]})
    other = enqueued(agent, now=now, payload={"order": True, "customer": [{"id": "x"}, {"id": 9}]})
    enqueued(agent, now=now, payload=["order", 1284])
    for written in (False, True):
        assert TaskValue.objects.exists() == written
        assert find("payload.order:1284") == {one, many}
        assert find("payload.order:7,true") == {many, other}
        assert find("payload.customer.id:acme payload.order:1284") == {one}
        assert find("payload.customer.id:9") == {other}
        assert find("payload.order:1284 -payload.customer.id:acme") == {many}
        assert find("(payload.order:7 OR payload.customer.id:x) -state:done") == {many, other}
        assert find("(payload.order:1284 OR state:done) (payload.order:7 OR type:none)") == {many}
        assert find("payload.order:128") == find("payload.order:Acme") == set()
        assert find('payload.customer.id:"acme" code', project) == {one}
        new_words.write_words(now=now)


@given(st.dictionaries(NAMES, PAYLOADS).map(json.dumps), PAYLOADS.map(json.dumps), NAMES)
@example('{"a": [1.50, 1e3, -0, 0.0, 1e-7, [1, ["x"]], {"b": "x"}, null]}', "null", "a")
@example(json.dumps({"a": [*range(30)]}), json.dumps([{"a": "x"}, [{"a": "y"}]]), "a")
def test_the_check_finds_exactly_the_stored_values(payload: str, result: str, name: str) -> None:
    values = {"", "x", "1.5", "1000", *list_leaves(json.loads(payload, parse_float=str))}
    values |= {*list_leaves(json.loads(result, parse_float=str))}
    given = {"values": list(values), "payload": payload}
    with connection.cursor() as cursor:
        for key in (f"payload.{name}", f"payload.{name}.id", f"result.{name}", "result.a.b"):
            for text in (result, None):
                cursor.execute(DIFFERENT, given | {"key": key, "result": text})
                assert cursor.fetchall() == []


def list_leaves(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [leaf for each in parts for leaf in list_leaves(each)]
    return [value if isinstance(value, str) else json.dumps(value)]


@pytest.mark.django_db(transaction=True)
def test_a_result_is_found_and_a_change_is_followed(
    agent: Agent, project: Project, now: datetime
) -> None:
    id = enqueued(agent, now=now, payload={"order": "first"})
    new_words.write_words(now=now)
    actions.change(id, Change(payload={"order": "second"}), version=1, stamp=Stamp(SYSTEM, now))
    for _ in range(2):
        assert (find("payload.order:first"), find("payload.order:second")) == (set(), {id})
        new_words.write_words(now=now)
    attempt = claimed(agent, id, now=now)
    report = Report(result={"invoice": "R-1"})
    finishing.finish_attempt(attempt, report, caller=TrustedCaller(SYSTEM, agent=agent), now=now)
    for _ in range(2):
        assert find("result.invoice:R-1 state:done") == {id}
        assert find("payload.invoice:R-1") == set()
        new_words.write_words(now=now)


def test_only_declared_keys_are_searched_and_stored(
    agent: Agent, project: Project, now: datetime
) -> None:
    id = enqueued(agent, now=now, payload={"order": 1, "secret": "x", "customer": "none"})
    write_values()
    assert TaskValue.objects.count() == 1
    assert find("payload.secret:x") == set()
    (said,) = list_problems(parse("payload.secret:x"), "tasks", project)
    assert said.startswith("“payload.secret” is not declared for search (Settings, Policies).")
    (said,) = list_problems(parse("(payload.ordr:1 OR type:a)"), "tasks", project)
    assert "Did you mean “payload.order”?" in said
    assert find("payload.order:1") == {id}
    declare(project, [])
    assert find("payload.order:1") == set()


def test_a_redacted_value_is_not_found(agent: Agent, project: Project, now: datetime) -> None:
    enqueued(agent, now=now, payload={"order": TOKEN, "customer": {"id": "y" * 201}})
    mask = Task.objects.get().payload["order"]
    assert "redacted" in mask
    write_values()
    assert find(f"payload.order:{TOKEN}") == find(f"payload.order:{mask}") == set()
    assert TaskValue.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_the_clock_adds_older_tasks_the_newest_first(
    agent: Agent, project: Project, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(project, [])
    new_words.write_words(now=now)
    ids = [enqueued(agent, now=now, payload={"part": n}) for n in range(5)]
    other = make_agent("alien", project=make_project("other"))
    enqueued(other, now=now, payload={"part": 1})
    new_words.write_words(now=now)
    monkeypatch.setattr(stored_values, "BATCH", 2)
    project = declare(project, ["payload.part"])
    assert find("payload.part:4") == set() and project.search_filled_to is not None
    assert stored_values.fill_batch()
    assert (find("payload.part:4"), find("payload.part:1")) == ({ids[4]}, set())
    begun = Project.objects.get(pk=project.pk).search_filled_to
    assert begun is not None and begun <= project.search_filled_to
    assert stored_values.fill() == 2  # the second one is not full
    assert Project.objects.get(pk=project.pk).search_filled_to is None
    assert [find(f"payload.part:{n}") for n in range(5)] == [{id} for id in ids]
    assert not stored_values.fill_batch()


def test_retention_deletes_the_digests(agent: Agent, project: Project, now: datetime) -> None:
    ids = [enqueued(agent, now=now, payload={"order": n}) for n in range(2)]
    write_values()
    task_rows.clear_payloads(ids[:1])
    assert set(TaskValue.objects.values_list("task_id", flat=True)) == {ids[1]}
    task_rows.delete_rows(ids)
    assert not TaskValue.objects.exists()


def test_common_values_show_the_newest_tasks(
    agent: Agent, project: Project, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [enqueued(agent, now=now, payload={"order": "all"}) for _ in range(4)]
    Task.objects.filter(pk=ids[0]).update(state=TaskState.DONE, completed_at=now)
    write_values()
    monkeypatch.setattr(common_words, "COUNT_CAP", 2)
    query = parse("payload.order:all")
    assert common_words.are_common(query, project)
    assert not common_words.are_common(parse("payload.order:none"), project)
    assert not common_words.are_common(parse("-payload.order:all"), project)
    assert order.list_ids(query, project, "", before=None, after=None) == ids[::-1]
    newest_first = Task.objects.order_by("-id").values_list("pk", flat=True)
    for common in (0, 100):
        monkeypatch.setattr(stored_values, "COMMON", common)
        matching = stored_values.match_newest("payload.order", project, "all")
        assert list(newest_first.filter(matching)) == ids[::-1]


def test_a_page_and_its_export_have_the_same_tasks(
    browser: Client, agent: Agent, project: Project, now: datetime
) -> None:
    enqueued(agent, "Bill the order", now=now, payload={"order": 1284})
    enqueued(agent, "Ship the order", now=now, payload={"order": 1})
    page = words(browser.get("/tasks/", {"q": "payload.order:1284"}))
    assert "Bill the order" in page and "Ship the order" not in page
    exported = browser.get(
        reverse("dashboard:tasks_export", args=["jsonl"]), {"q": "payload.order:1284"}
    )
    rows = b"".join(exported.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert [json.loads(row)["title"] for row in rows] == ["Bill the order"]
    unknown = browser.get("/tasks/", {"q": "payload.Order:1284 payload.x:1"})
    assert "“payload.x” is not declared" in words(unknown)


def test_people_declare_keys_on_the_page(browser: Client, project: Project) -> None:
    assert "all tasks are searched" in words(browser.get("/settings/policies/"))
    form = {"keys": "payload.sku, result.id\npayload.sku", "version": "2", "reason": "support"}
    browser.post("/settings/policies/search-keys/", form)
    assert Project.objects.get(pk=project.pk).search_keys == ["payload.sku", "result.id"]
    assert "older tasks are being added" in words(browser.get("/settings/policies/"))
    said = Event.objects.filter(kind="project.policies_changed").latest("id")
    assert said.data == {"search_keys": ["payload.sku", "result.id"], "reason": "support"}
    refused = browser.post(
        "/settings/policies/search-keys/", form | {"keys": "order", "version": "3"}, follow=True
    )
    assert "Write each key as payload.order" in words(refused)


@pytest.mark.parametrize(
    "keys",
    [
        ["order"],
        ["payload."],
        ["payload.a b"],
        ["payload.a.b.c.d.e"],
        ["payload." + "a" * 41],
        ['payload.a"b'],
        [f"payload.{TOKEN}"],
        [f"payload.k{n}" for n in range(9)],
        ["payload." + ".".join(["a" * 40] * 3)],
    ],
)
def test_keys_are_checked(project: Project, keys: list[str]) -> None:
    with pytest.raises(Invalid):
        declare(project, keys)


def test_the_api_declares_and_filters(
    api: Callable[..., Api], agent: Agent, project: Project, now: datetime
) -> None:
    operator, reader = api("operator"), api("reader")
    id = enqueued(agent, now=now, payload={"order": 1284})
    enqueued(agent, now=now, payload={"order": 1})
    found: Any = reader("GET", "/tasks?value=payload.order:1284")
    assert [row["id"] for row in found.body["data"]] == [str(id)]
    assert reader("GET", "/tasks?value=payload.order:2").body["data"] == []
    refused = problem(reader("GET", "/tasks?value=payload.x:1"), 422, "validation_error")
    assert "Declared keys: payload.order, payload.customer.id, result.invoice." in str(refused)
    tag = operator("GET", "/policies")["ETag"]
    changed = operator("PATCH", "/policies", {"search_keys": ["payload.x"]}, If_Match=tag)
    assert changed.body["search_keys"] == ["payload.x"] and changed.body["search_filled_to"]
    assert reader("GET", "/tasks?value=payload.x:1").body["data"] == []
