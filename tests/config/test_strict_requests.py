"""What the API refuses in query strings and JSON bodies."""

import pytest

from config.api import PARAMETERS
from ledger.models import Agent, Instruction, Project
from tests.conftest import Api
from tests.factories import make_agent, make_project, make_token
from tests.ledger.api.openapi import openapi_schema
from tests.ledger.api.test_instructions import problem
from tests.retries.api.calls import enqueue

pytestmark = pytest.mark.django_db

READS = sorted(
    path.removeprefix("/v1")
    for path, methods in openapi_schema()["paths"].items()
    if "get" in methods and "{" not in path
)


@pytest.mark.parametrize("path", READS)
def test_an_unknown_query_parameter_is_refused(project: Project, path: str) -> None:
    manager = Api(make_token("operator", manages_tokens=True))
    body = problem(manager("GET", f"{path}?projct=1"), 422, "validation_error")
    assert body["errors"][0]["pointer"] == "/projct"
    assert "unknown" in body["detail"]


def test_every_declared_query_parameter_is_known() -> None:
    declared = {
        (operation["operationId"], parameter["name"])
        for methods in openapi_schema()["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", [])
        if parameter.get("in") == "query"
    }
    known = {(view.__name__, name) for view, names in PARAMETERS.items() for name in names}
    assert declared == known


def test_a_post_with_an_unknown_query_parameter_changes_nothing(
    operator: Api, agent: Agent
) -> None:
    body = {"agent": "coder", "content": "x"}
    refused = operator("POST", "/instructions?dry_run=true", body)
    assert "takes no query parameters" in problem(refused, 422, "validation_error")["detail"]
    assert not Instruction.objects.exists()


def test_a_repeated_query_parameter_is_refused(operator: Api) -> None:
    body = problem(operator("GET", "/tasks?state=done&state=failed"), 422, "validation_error")
    assert body["errors"] == [
        {"pointer": "/state", "detail": "The query parameter is repeated. Send it only once."}
    ]


@pytest.mark.parametrize("path", ["/instructions", "/tasks", "/dead-letters", "/escalations"])
def test_a_filter_on_a_foreign_agent_is_refused(operator: Api, agent: Agent, path: str) -> None:
    foreign = make_agent("stranger", project=make_project("other"))
    for value in ("stranger", foreign.id, "codr"):
        body = problem(operator("GET", f"{path}?agent={value}"), 422, "unknown_agent")
        assert body["nearest"] == (["coder"] if value == "codr" else [])
    for value in ("coder", agent.id):
        assert operator("GET", f"{path}?agent={value}").status_code == 200


@pytest.mark.parametrize("path", ["/tasks", "/escalations"])
def test_a_filter_on_a_foreign_plan_is_refused(operator: Api, agent: Agent, path: str) -> None:
    make_agent(project=make_project("other"))
    stranger = Api(make_token("operator", project=make_project("other")))
    for value in ("09-01", import_plan(stranger, "09-01")):
        body = problem(operator("GET", f"{path}?plan={value}"), 422, "validation_error")
        assert body["errors"][0]["pointer"] == "/plan"
    for value in ("03-01", import_plan(operator, "03-01")):
        assert operator("GET", f"{path}?plan={value}").status_code == 200


def import_plan(api: Api, ref: str) -> str:
    task = {"title": "One", "action": "do it"}
    response = api("POST", "/plans", {"ref": ref, "agent": "coder", "tasks": [task]})
    id: str = response.body["plan"]["id"]
    return id


@pytest.mark.parametrize("verb", ["pause", "resume", "abort", "restart"])
def test_a_plan_is_addressed_by_id_or_ref(operator: Api, agent: Agent, verb: str) -> None:
    id = import_plan(operator, "03-01")
    if verb == "resume":
        operator("POST", "/plans/03-01/pause")
    if verb == "restart":
        operator("POST", "/plans/03-01/abort")
    assert operator("POST", f"/plans/03-01/{verb}").body["id"] == id
    found = operator("GET", "/plans/03-01")
    assert found.body == operator("GET", f"/plans/{id}").body
    etag = found["ETag"]
    assert operator("PATCH", "/plans/03-01", {"title": "New"}, If_Match=etag).body["id"] == id
    problem(operator("GET", "/plans/09-09"), 404, "not_found")
    problem(operator("GET", "/plans/%00"), 404, "not_found")


def test_an_agent_is_addressed_by_id_or_name(operator: Api, agent: Agent) -> None:
    # An id wins over a name, which a new agent can no longer have.
    Agent.objects.create(project=agent.project, name=str(agent.id))
    for address in ("coder", agent.id):
        assert operator("GET", f"/agents/{address}").body["name"] == "coder"
        assert operator("PATCH", f"/agents/{address}", {"paused": True}).body["name"] == "coder"
        assert operator("POST", f"/agents/{address}/reset").status_code == 200
        assert operator("POST", f"/agents/{address}/breaker/trip").body["name"] == "coder"
        assert operator("POST", f"/agents/{address}/breaker/reset").body["name"] == "coder"
    problem(operator("GET", "/agents/codr"), 404, "not_found")


def test_an_agents_token_can_filter_by_its_own_agent_only(coder: Api, agent: Agent) -> None:
    make_agent("codex")
    enqueue(coder)
    assert len(coder("GET", "/tasks?agent=coder").body["data"]) == 1
    assert problem(coder("GET", "/tasks?agent=codex"), 422, "unknown_agent")["nearest"] == []


def test_repeated_keys_in_json_are_refused(operator: Api, agent: Agent) -> None:
    body = '{"agent": "coder", "content": "a", "content": "b"}'
    refused = problem(operator("POST", "/instructions", body), 400, "bad_request")
    assert '"content" appears more than once' in refused["detail"]
    nested = '{"agent": "coder", "type": "code", "payload": {"a": 1, "b": {"c": 1, "c": 1}}}'
    assert (
        '"c" appears' in problem(operator("POST", "/tasks", nested), 400, "bad_request")["detail"]
    )


LISTS = ("/instructions", "/tasks", "/plans", "/agents", "/escalations", "/dead-letters")


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("cursor", ["x", "!!!", "%00", "%F0%9F%92%A9", "YQ", "a" * 3000])
def test_a_malformed_cursor_is_refused(operator: Api, path: str, cursor: str) -> None:
    problem(operator("GET", f"{path}?cursor={cursor}"), 400, "bad_cursor")


ZERO = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    "after", ["x", "1", f"1.{'-' * 36}", "1.%00", f"-1.{ZERO}", f"%D9%A3.{ZERO}", f"1.{ZERO}%0A"]
)
def test_a_malformed_position_in_the_stream_is_refused(operator: Api, after: str) -> None:
    problem(operator("GET", f"/events?after={after}"), 400, "bad_cursor")


def test_a_cursor_belongs_to_one_list(operator: Api, agent: Agent) -> None:
    for _ in range(2):
        enqueue(operator)
    cursor = operator("GET", "/tasks?limit=1").body["next_cursor"]
    assert len(operator("GET", f"/tasks?limit=1&cursor={cursor}").body["data"]) == 1
    problem(operator("GET", f"/tasks?limit=1&cursor={cursor[:-1]}%20"), 400, "bad_cursor")
    problem(operator("GET", f"/agents?cursor={cursor}"), 400, "bad_cursor")


def test_agent_is_the_name_and_agent_id_the_id_in_every_schema() -> None:
    for name, schema in openapi_schema()["components"]["schemas"].items():
        fields = schema.get("properties", {})
        assert "agent_name" not in fields, name
        for field, kind in (("agent", None), ("agent_id", "uuid")):
            forms = fields.get(field, {}).get("anyOf", [fields.get(field, {})])
            assert {form.get("format") for form in forms} <= {kind, None}, name


def test_agent_is_the_name_in_every_list(operator: Api, coder: Api, agent: Agent) -> None:
    operator("POST", "/instructions", {"agent": "coder", "content": "x"})
    for on_exhausted in ("escalate", "dead_letter"):
        enqueue(operator, max_attempts=1, on_exhausted=on_exhausted)
        attempt = coder("POST", "/claims").body["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{attempt}/result", {"status": "failure"})
    plan = import_plan(operator, "03-01")
    task = operator("GET", "/tasks").body["data"][0]["id"]
    rows = operator("GET", f"/plans/{plan}").body["tasks"]
    rows += operator("GET", f"/tasks/{task}/events").body["data"]
    for path in ("/instructions", "/tasks", "/escalations", "/dead-letters"):
        rows += operator("GET", path).body["data"]
    assert len(rows) >= 7
    assert {(row["agent"], row["agent_id"]) for row in rows} == {("coder", str(agent.id))}
    me = coder("GET", "/me").body
    assert (me["agent"], me["agent_id"]) == ("coder", str(agent.id))
    assert operator("GET", "/me").body["agent"] is None
