"""Ids that start with a time."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from ledger.values.ids import first_id

pytestmark = pytest.mark.django_db


def test_the_first_id_of_a_time_sorts_between_the_ids_before_and_after_it() -> None:
    with connection.cursor() as cursor:
        cursor.execute("select uuidv7('-1 hour'::interval), clock_timestamp() - interval '1 hour'")
        id, at = cursor.fetchone()
    slack = timedelta(milliseconds=50)
    assert first_id(at - slack) < id < first_id(at + slack)
    assert first_id(datetime(1960, 1, 1, tzinfo=UTC)).int >= 0
