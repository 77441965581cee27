"""A client that openapi-python-client generates from the description works on a real server."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.api.openapi import openapi_schema
from tests.serving import Tenfour

PACKAGE = "generated_tenfour"


class Generated:
    """The generated package: `call` an operation, and build a `model`."""

    def call(self, client: Any, operation: str, **arguments: Any) -> Any:
        tag = next(
            each["tags"][0]
            for methods in openapi_schema()["paths"].values()
            for each in methods.values()
            if each["operationId"] == operation
        )
        module = importlib.import_module(f"{PACKAGE}.api.{tag.replace(' ', '_')}.{operation}")
        return module.sync_detailed(client=client, **arguments)

    def model(self, name: str, **fields: Any) -> Any:
        return getattr(importlib.import_module(f"{PACKAGE}.models"), name).from_dict(fields)

    def client(self, url: str, token: str) -> Any:
        module = importlib.import_module(f"{PACKAGE}.client")
        return module.AuthenticatedClient(base_url=url, token=token)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(openapi_schema()))
    (folder / "config.yaml").write_text("post_hooks: []\n")
    program = Path(sys.executable).parent / "openapi-python-client"
    options = {
        "--path": folder / "openapi.json",
        "--config": folder / "config.yaml",
        "--output-path": folder / PACKAGE,
        "--meta": "none",
    }
    argv = [str(part) for option in options.items() for part in option]
    done = subprocess.run([program, "generate", *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    modules = {path.stem for path in (folder / PACKAGE / "api").glob("*/*.py")} - {"__init__"}
    assert modules == {
        each["operationId"]
        for methods in openapi_schema()["paths"].values()
        for each in methods.values()
    }, done.stdout
    sys.path.insert(0, str(folder))
    yield Generated()
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_a_generated_client_works(generated: Generated, tenfour_server: Tenfour) -> None:
    coder = generated.client(tenfour_server.url, tenfour_server.token("agent", "coder"))
    producer = generated.client(tenfour_server.url, tenfour_server.token("orchestrator"))
    with coder, producer:
        check_calls(generated, coder, producer)


def check_calls(generated: Generated, coder: Any, producer: Any) -> None:
    call, model = generated.call, generated.model

    body = model("InstructionIn", agent="coder", content="Check if the CLI is available")
    sent = call(producer, "instructions_create", body=body, idempotency_key="once")
    again = call(producer, "instructions_create", body=body, idempotency_key="once")
    assert sent.status_code == again.status_code == 201 and sent.parsed == again.parsed
    assert again.headers["Idempotency-Replayed"] == "true"
    pulled = call(coder, "instructions_pull", body=model("PullIn")).parsed.data
    assert [row.id for row in pulled] == [sent.parsed.id]
    acked = call(coder, "instructions_ack", id=sent.parsed.id, body=model("AckIn", note="yes"))
    assert acked.parsed.state == "acknowledged"

    body = model(
        "TaskIn",
        agent="coder",
        type="code",
        title="Create it",
        max_attempts=2,
        backoff={"base_delay_ms": 0},
    )
    task = call(producer, "tasks_create", body=body).parsed
    patch = model("TaskPatch", priority=5)
    stale = call(producer, "tasks_update", id=task.id, body=patch, if_match='"v9"')
    assert (stale.status_code, stale.parsed.code) == (412, "version_mismatch")
    etag = call(producer, "tasks_get", id=task.id).headers["ETag"]
    changed = call(producer, "tasks_update", id=task.id, body=patch, if_match=etag)
    assert (changed.status_code, changed.parsed.priority) == (200, 5)

    claimed = call(coder, "claims_create", body=model("ClaimIn", worker_id="ci-7")).parsed
    assert [each.task.id for each in claimed.data] == [task.id]
    attempt = claimed.data[0].attempt.id
    types = importlib.import_module(f"{PACKAGE}.types")
    kinds = importlib.import_module(f"{PACKAGE}.models")
    output = types.File(payload=BytesIO(b"FAIL tests/PlannerId\n1 failed\n"))
    decision = call(
        coder,
        "attempts_report_exit",
        id=attempt,
        code=1,
        of=kinds.ExitOf("verification"),
        body=output,
    )
    assert (decision.status_code, decision.parsed.decision) == (200, "wait")
    (failed,) = call(producer, "tasks_list_attempts", id=task.id).parsed.data
    assert failed.failure.type_ == "verification_failed"
    assert "1 failed" in failed.failure.verification.to_dict()["output"]
