"""OPS-6: a server that takes no writes is an outage for the API and for pages, never a 500."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection, connections
from django.test import Client

from ledger.models import Agent, Task
from tests.conftest import Api
from tests.retries.moves import make_task
from tests.serving import database_of_tests

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def read_only(agent: Agent, operator: Api) -> Iterator[None]:
    """A server of which each new connection is read-only, as after a demotion."""
    make_task(agent)
    name = connection.settings_dict["NAME"]
    with psycopg.connect(database_of_tests(), autocommit=True) as own:
        own.execute(f"alter database {name} set default_transaction_read_only = on")
        connections.close_all()
        try:
            yield
        finally:
            connections.close_all()
            own.execute(f"alter database {name} reset default_transaction_read_only")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/tasks", None),  # a token's first use is written
        ("POST", "/instructions", {"agent": "coder", "content": "Look"}),
        ("POST", "/claims", {}),
    ],
)
def test_the_api_answers_503(
    method: str, path: str, body: Any, operator: Api, coder: Api, read_only: None
) -> None:
    caller = coder if path == "/claims" else operator
    response = caller(method, path, body)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert response.body["code"] == "temporarily_unavailable" and response.body["retryable"]
    assert response.body["detail"] == "The database is read-only. The request has not taken effect."


def test_pages_answer_503(browser_of_mara: Client, read_only: None) -> None:
    assert browser_of_mara.get("/tasks/").status_code == 200  # it writes nothing
    response = browser_of_mara.post("/first-steps/", {"hidden": "yes"})
    assert (response.status_code, response["Retry-After"]) == (503, "1")
    assert "The database is read-only. The request has not taken effect." in (
        response.content.decode()
    )
    signing_in = Client(raise_request_exception=False)
    response = signing_in.post("/sign-in/", {"username": "mara", "password": "correct horse 9"})
    assert (response.status_code, response["Retry-After"]) == (503, "1")


@pytest.fixture
def browser_of_mara(transactional_db: None) -> Client:
    mara = User.objects.create_superuser("mara", password="correct horse 9")
    client = Client(raise_request_exception=False)
    client.force_login(mara)
    return client


def test_the_connection_to_a_read_only_server_is_given_up(read_only: None) -> None:
    """The next one may reach the server that takes writes now."""
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("create table x ()")
    assert connection.connection is None or connection.connection.closed
    connection.close_if_unusable_or_obsolete()
    assert Task.objects.count() == 1
