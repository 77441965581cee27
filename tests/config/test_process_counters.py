"""What the web server's processes count by themselves, added up over all of them."""

import os
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from config.monitoring.request_metrics import operations
from tests.config.web_processes import ending
from tests.factories import make_agent, make_token
from tests.retries.moves import attempt_of, claim, make_task
from tests.serving import serve
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def fetch(url: str, *, token: str = "", body: bytes | None = None) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Content-Type": "application/json"} if body else {}
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def scrape(url: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(fetch(f"{url}/metrics")[1])
        for sample in family.samples
    }


def is_up(url: str) -> bool:
    try:
        return fetch(f"{url}/healthz")[0] == 200
    except OSError:
        return False


def test_two_workers_add_up_and_leave_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent()
    token = make_token("agent", agent=agent)
    make_task(agent, now=timezone.now())
    attempt = attempt_of(claim(agent, now=timezone.now()))
    (tmp_path / "metrics-999999999").mkdir()  # of a server that was killed
    monkeypatch.setenv("TENFOUR_METRICS_ALLOW", "127.0.0.1")
    monkeypatch.setenv("TENFOUR_DATA", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with ending(serve(bound.fileno(), workers=2)) as process:
            wait_until(lambda: is_up(url))
            statuses = [fetch(f"{url}/v1/me", token=token)[0] for _ in range(30)]
            statuses += [fetch(f"{url}/v1/me", token="wrong")[0] for _ in range(2)]
            assert statuses == [200] * 30 + [401] * 2
            fetch(f"{url}/v1/claims", token=token, body=b"{}")
            beat = f"{url}/v1/attempts/{attempt}/heartbeat"
            beats = [fetch(beat, token=token, body=b"{}")[0] for _ in range(20)]
            assert beats == [200] * 20
            folders = list(tmp_path.glob("metrics-*"))
            found = scrape(url)
            assert found["tenfour_http_requests_total", "me_get", "2xx"] == 30
            assert found["tenfour_http_requests_total", "me_get", "4xx"] == 2
            for status_class, count in (("2xx", 30), ("4xx", 2)):
                name = "tenfour_http_request_duration_seconds_count"
                assert found[name, "me_get", status_class] == count
            assert found["tenfour_auth_failures_total", "token_invalid"] == 2
            assert found["tenfour_claims_total", "empty"] == 1
            assert found["tenfour_heartbeats_total", "coder"] == 20
            assert [folder.name for folder in folders] == [f"metrics-{process.pid}"]
            assert len(list(folders[0].glob("counter_*.db"))) >= 1
            process.terminate()
            process.wait(PATIENCE_S)
    assert list(tmp_path.glob("metrics-*")) == []


def test_every_operation_has_its_own_name() -> None:
    names = list(operations().values())
    assert len(names) == len(set(names)) > 80
    assert os.environ.get("PROMETHEUS_MULTIPROC_DIR") is None  # not in tests
