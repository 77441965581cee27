"""Errors of the database: one sentence in a problem, and one line in the log."""

import json
import logging
import sys

import pytest
from django.db import OperationalError, connection
from django.db.transaction import atomic
from django.test import RequestFactory

from config import urls as urls  # loads each kind of problem
from config.api import on_unexpected_error
from config.monitoring.logs import formatter
from config.postgres.database_errors import describe
from config.requests.outages import answer_outage


@pytest.fixture
def disk_full(db: None) -> OperationalError:
    """The error of PostgreSQL itself, raised by a block instead of by a disk."""
    raised = (
        "raise exception 'could not extend file: No space left on device' using errcode='53100'"
    )
    with pytest.raises(OperationalError) as error, atomic(), connection.cursor() as cursor:
        cursor.execute(f"do $$ begin {raised}; end $$")
    return error.value


def test_a_full_disk_is_called_that(disk_full: OperationalError) -> None:
    assert describe(disk_full).startswith("the database's disk is full (could not extend file")
    assert "\n" not in describe(disk_full)
    response = answer_outage(RequestFactory().get("/v1/me"), disk_full)
    assert response.status_code == 503
    assert json.loads(response.content)["detail"].startswith("The database's disk is full.")


@pytest.mark.parametrize("as_json", [True, False])
def test_an_outage_is_one_line(as_json: bool) -> None:
    try:
        raise OperationalError("connection failed\n\tIs the server running?")
    except OperationalError:
        record = logging.getLogger("x").makeRecord(
            "x", logging.ERROR, "f", 1, "Task %s failed:\n oh", ("a",), sys.exc_info()
        )
    text = formatter(as_json).format(record)
    assert len(text.splitlines()) == 1
    assert "connection failed Is the server running?" in text and "Traceback" not in text


def test_a_problem_of_the_database_is_logged_once(
    disk_full: OperationalError, caplog: pytest.LogCaptureFixture
) -> None:
    """Django would log the response after our handler has logged the error."""
    for handle, error in ((answer_outage, disk_full), (on_unexpected_error, ValueError("x"))):
        caplog.clear()
        response = handle(RequestFactory().get("/v1/me"), error)
        assert getattr(response, "_has_been_logged", False)
        assert len(caplog.records) == 1
        assert "GET /v1/me" in caplog.text
