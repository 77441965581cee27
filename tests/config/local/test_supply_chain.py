"""The list of packages, and the question whether any has a known vulnerability."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from config.local import supply_chain
from config.local.supply_chain import audit_packages, write_bill_of_materials
from tests.serving import ROOT

VULNERABLE = "apprise"
ADVISORY = {
    "id": "GHSA-0000-test",
    "summary": "A test's advisory",
    "affected": [
        {
            "package": {"name": VULNERABLE, "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "999.0"}]}],
        }
    ],
}


@contextmanager
def serve_advisories() -> Iterator[str]:
    """Serve the protocol of osv.dev with one advisory; yield the address of its query."""

    class Advisories(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = query["package"]["name"] == VULNERABLE
            answer: dict[str, Any] = {"vulns": [ADVISORY]} if found else {}
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


def test_list_names_every_pinned_package_with_its_hashes(tmp_path: Path) -> None:
    written = tmp_path / "sbom.json"
    assert write_bill_of_materials(written) > 40
    packages = {each["name"]: each for each in json.loads(written.read_text())["components"]}
    lock = (ROOT / "requirements.lock").read_text()
    pinned = {line.partition("==")[0] for line in lock.splitlines() if line[:1].isalnum()}
    assert pinned == packages.keys()
    assert all(each["externalReferences"][0]["hashes"] for each in packages.values())


def test_advisory_fails_the_check_and_missing_advisories_are_reported(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    with serve_advisories() as url:
        service = ["--vulnerability-service", "osv", "--osv-url", url]
        advisories, incomplete = audit_packages(*service)
    assert len(advisories) == 1 and not incomplete
    assert advisories[0].startswith(f"{VULNERABLE} ")
    assert advisories[0].endswith("GHSA-0000-test, fixed in 999.0")

    monkeypatch.setattr(supply_chain, "BILL_OF_MATERIALS", tmp_path / "sbom.json")
    assert supply_chain.main(*service) == 0  # nothing listens there any more
    assert "The advisories were not read in full" in capsys.readouterr().err
