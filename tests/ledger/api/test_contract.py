"""The API keeps to its own description, with any input and any kind of token (Schemathesis, over WSGI)."""

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.wsgi import application
from tests.factories import make_agent, make_project, make_token
from tests.ledger.api.openapi import openapi_schema
from tests.ledger.api.test_access import MAY

OPERATIONS = [
    (method.upper(), path)
    for path, methods in openapi_schema()["paths"].items()
    for method in methods
]
FITTING = {name: kinds.split() for kinds, names in MAY.items() for name in names}


@cache
def load_description() -> Any:
    """Load the description once: that takes longer than all calls of one operation."""
    import schemathesis  # takes seconds to import: not while other tests are collected

    return schemathesis.openapi.from_wsgi("/v1/openapi.json", application)


def make_tokens() -> dict[str, str]:
    """Return a secret of every kind, one of another project, an unknown one, and none."""
    return {
        "agent": make_token("agent", agent=make_agent()),
        "orchestrator": make_token("orchestrator"),
        "operator": make_token("operator"),
        "manager": make_token("operator", manages_tokens=True),
        "reader": make_token("reader"),
        "foreign": make_token("operator", project=make_project("another")),
        "unknown": "tf_unknown",
        "none": "",
    }


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_are_as_declared(method: str, path: str) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    schema = load_description()
    secrets = make_tokens()
    operation = openapi_schema()["paths"][path][method.lower()]["operationId"]
    # Half of the requests have a token that may call the operation, the others any kind.
    kinds = st.one_of(st.sampled_from(FITTING[operation]), st.sampled_from([*secrets]))

    @given(case=schema[path][method].as_strategy(), kind=kinds)
    @settings(
        max_examples=16,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def holds(case: Any, kind: str) -> None:
        secret = secrets[kind]
        case.call_and_validate(
            headers={"Authorization": f"Bearer {secret}"} if secret else {},
            checks=(
                not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
                checks.response_headers_conformance,
            ),
        )

    holds()
