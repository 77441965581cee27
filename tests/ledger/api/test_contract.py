"""The API keeps to its own description, whatever it is fed (Schemathesis, over WSGI)."""

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.wsgi import application
from tests.factories import make_agent, make_token
from tests.ledger.api.openapi import openapi_schema

OPERATIONS = [
    (method.upper(), path)
    for path, methods in openapi_schema()["paths"].items()
    for method in methods
]


@cache
def load_description() -> Any:
    """Load the description once: that takes longer than all calls of one operation."""
    import schemathesis  # takes seconds to import: not while other tests are collected

    return schemathesis.openapi.from_wsgi("/v1/openapi.json", application)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_are_as_declared(method: str, path: str) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    schema = load_description()
    agents_own = "pull" in path or path.endswith("/ack") or "signals" in path
    agent = make_agent()
    secret = (
        make_token("agent", agent=agent)
        if agents_own
        else make_token("operator", manages_tokens=True)
    )

    @given(data=st.data())
    @settings(
        max_examples=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def holds(data: st.DataObject) -> None:
        case = data.draw(schema[path][method].as_strategy())
        case.call_and_validate(
            headers={"Authorization": f"Bearer {secret}"},
            checks=(
                not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
                checks.response_headers_conformance,
            ),
        )

    holds()
