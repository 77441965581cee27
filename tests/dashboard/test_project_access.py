"""Attacks by an admin of one project on the rows of another."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import example, given
from hypothesis import strategies as st

from dashboard.frame.project_access import ids_in
from dashboard.lists.query_box import as_id
from ledger.authorization.roles import Role
from ledger.models import Agent, Membership, Project
from tests.access_world import MARK, World, list_changes, make_world, read_rows
from tests.factories import make_agent, make_project
from tests.source_tree import calls

ID = "01a1fe8a-1bbf-798b-b797-e0023d4c4b40"
# notations that `uuid.UUID` takes for the same id
DISGUISES: tuple[Callable[[str], str], ...] = (
    lambda id: id.replace("-", ""),
    lambda id: id.upper(),
    lambda id: f"{{{id}}}",
    lambda id: f"urn:uuid:{id}",
    lambda id: "-".join(id.replace("-", "")),
    lambda id: f"{id.replace('-', '')}-",
    lambda id: id.translate({ord("0") + n: 0xFF10 + n for n in range(10)}),
)


@given(
    st.sampled_from(DISGUISES),
    st.uuids(),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("-{} ,_\u0660x")), max_size=3),
)
@example(DISGUISES[4], UUID(ID), [])
def test_an_id_that_a_view_reads_is_found_before(
    disguise: Callable[[str], str], id: UUID, more: list[tuple[int, str]]
) -> None:
    text = disguise(str(id))
    for at, char in more:
        text = text[:at] + char + text[at:]
    found = as_id(text)
    assert found is None or list(ids_in([text])) == [found]


def test_only_one_function_reads_ids_of_requests() -> None:
    """Other calls of `UUID` have a number or bytes, or read what Tenfour stored itself."""
    may = {
        *("lists/query_box.py", "frame/project_access.py", "insight/predictions.py"),
        *("saved_views/strip.py", "deadletters/causes.py", "tasks/forms/new_task_views.py"),
        "actions.py",
    }
    read = {
        path.removeprefix("dashboard/")
        for path, call, name in calls()
        if path.startswith("dashboard/") and call.args and name.split(".")[-1] == "UUID"
    }
    assert read == may


@pytest.fixture
def world(agent: Agent, now: datetime) -> World:
    return make_world(agent, now)


@pytest.fixture
def elsewhere(db: None) -> Project:
    project = make_project("elsewhere")
    make_agent("foreign", project=project)
    return project


@pytest.fixture
def foreign(elsewhere: Project) -> Client:
    """Return a client with the admin of another project signed in."""
    user = User.objects.create_user("eve")
    Membership.objects.create(user=user, project=elsewhere, role=Role.ADMIN, added_by="mara")
    client = Client()
    client.force_login(user)
    return client


def list_attacks(ids: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str], str]]:
    """Yield requests that name a row by its id: method, path, form, and the name of the field."""
    settings = "/settings/notifications"
    rule = {"conditions": "plan", "channel": str(ids["channel_id"])}
    yield "get", f"{settings}/", {"edit": str(ids["notification_rule_id"])}, "edit"
    yield "get", f"{settings}/", {"channel": str(ids["channel_id"])}, "channel"
    yield "post", f"{settings}/rules/", rule | {"rule": str(ids["notification_rule_id"])}, "rule"
    yield "post", f"{settings}/rules/", rule, "channel"
    yield "post", f"{settings}/rules/said/", {"rule": str(ids["notification_rule_id"])}, "rule"
    yield "post", f"{settings}/rules/check/", {"rule": str(ids["notification_rule_id"])}, "rule"
    form = {"channel": str(ids["channel_id"]), "name": "mine", "kind": "webhook"}
    yield "post", f"{settings}/channels/", form, "channel"
    yield "get", "/settings/deliveries/", {"open": str(ids["delivery_id"])}, "open"
    yield "get", "/instructions/", {"open": str(ids["instruction_id"])}, "open"
    target = {"measure": "run", "percent": "95", "within_s": "60"}
    for kind in ("agent", "plan"):
        subject = {"subject": f"{kind}:{ids[f'{kind}_id']}"}
        yield "post", "/insight/targets/", target | subject, "subject"
    type = {"subject": f"type:{Project.objects.get(name='default').pk}:code"}
    yield "post", "/insight/targets/", target | type, "subject"
    connect = {"agent": "mine", "replaces": str(ids["token_id"])}
    yield "post", f"/agents/connect/{ID}/", connect, "replaces"
    yield "get", "/escalations/answer-all/", {"pattern": str(ids["pattern_id"])}, "pattern"
    skip = {"id": str(ids["task_id"]), "confirmed": "yes"}
    yield "post", "/operations/new/task.skip/", skip, "id"
    yield "post", "/settings/deliveries/redeliver/", {"id": str(ids["delivery_id"])}, "id"


def test_no_notation_of_an_id_reaches_another_project(
    world: World, foreign: Client, elsewhere: Project
) -> None:
    before = read_rows()
    for method, path, data, field in list_attacks(world.ids):
        for number, disguise in enumerate((str, *DISGUISES)):
            response = getattr(foreign, method)(path, data | {field: disguise(data[field])})
            assert MARK not in response.content.decode(), (path, field, number)
            assert list_changes(before, besides=[elsewhere.pk]) == [], (path, field, number)
