"""Secrets in what Tenfour gives away besides its tables: logs, metrics, messages, traces, backups.

Every text that is sent has a word that names its field beside a secret. Where the word arrives and
the secret does not, the field got there and was masked; where the word does not, nothing was tested.
"""

import json
import re
import signal
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from config.local import backups
from config.local.places import place_of
from tests.config.local.test_backups import credentials, manage
from tests.config.local.test_up import Instance, data_folder
from tests.config.otlp_receiver import Receiver as SpanReceiver
from tests.config.otlp_receiver import receive_spans
from tests.retries.notifications.receivers import Receiver, ntfy, receive
from tests.secret_texts import LEFT, TOKEN
from tests.services import copy_migrated
from tests.waiting import PATIENCE_S, wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
WORD = re.compile(r"walrus_([a-z]+)")
FORM_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
INVITATION = re.compile(r"/join/([\w-]{20,})/")


def say(field: str) -> str:
    """Return a text with a word that names a field, and a secret."""
    return f"walrus_{field} {TOKEN}"


@dataclass
class Outside:
    """What has left an instance after it was told secrets, by where it went."""

    texts: dict[str, str]
    invitation: str


class Caller:
    """Calls the API and the pages of an instance, with a secret in every text and header."""

    def __init__(self, instance: Instance, http: httpx2.Client) -> None:
        self.known, self.http = credentials(instance.data), http
        self.url, self.numbers = str(http.base_url), count()

    def __call__(self, kind: str, path: str, body: Any, *, status: int = 0) -> Any:
        headers = {
            "Authorization": f"Bearer {self.known[f'TENFOUR_{kind}_TOKEN']}",
            "User-Agent": say("agent"),
            "Referer": f"{self.url}/{TOKEN}",
            "X-Request-Id": f"walrus_request.{TOKEN}"[:64],
            "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
            "tracestate": f"walrus={TOKEN}",
            "Idempotency-Key": say(f"key{next(self.numbers)}"),
        }
        answer = self.http.post(f"/v1{path}", json=body, headers=headers)
        assert answer.status_code == status if status else answer.is_success, (path, answer.text)
        return answer.json() if answer.content else None

    def sign_in(self) -> None:
        login = {"username": self.known["TENFOUR_LOGIN"]}
        self.submit("/sign-in/", "/sign-in/", login | {"password": self.known["TENFOUR_PASSWORD"]})

    def submit(self, page: str, path: str, form: dict[str, str]) -> str:
        """Post a form with the token of its page, and return the response."""
        token = FORM_TOKEN.search(self.http.get(page).text)
        assert token, page
        posted = form | {"csrfmiddlewaretoken": token[1]}
        answer = self.http.post(path, data=posted, headers={"Referer": self.url})
        assert answer.status_code < 400, (path, answer.text)
        return answer.text


def tell(call: Caller, receiver: Receiver) -> None:
    """Tell an instance a secret in every kind of field that goes further."""
    call("OPERATOR", "/webhooks", {"name": say("webhook"), "url": receiver.url})
    channel = call(
        "OPERATOR", "/notification-channels", {"name": say("channel"), "url": ntfy(receiver)}
    )
    rule = {"conditions": ["escalation"], "channel_id": channel["id"]}
    call("OPERATOR", "/notification-rules", rule)
    task = {"type": "walrus_type", "title": say("title"), "max_attempts": 1}
    task |= {"payload": {"action": say("action")}, "register": True}
    call("PRODUCER", "/tasks", task | {"agent": say("refused")}, status=422)
    others = call("PRODUCER", "/tasks", task | {"agent": "walrus_named"})
    call("PRODUCER", f"/tasks/{others['id']}/abort", {"reason": say("reason")})
    own = task | {"agent": call.known["TENFOUR_AGENT"]}
    for ends, worker in (("escalate", "worker"), ("dead_letter", "session:walrus_worker")):
        call("PRODUCER", "/tasks", own | {"on_exhausted": ends})
        claimed = call("AGENT", "/claims", {"worker_id": f"{worker} {say('worker')}"})["data"][0]
        attempt = f"/attempts/{claimed['attempt']['id']}"
        call("AGENT", f"{attempt}/heartbeat", {"progress": {"message": say("progress")}})
        fields = ("message", "details", "root_cause_guess", "suggested_fix")
        failure = {name: say(name.partition("_")[0]) for name in fields}
        report = {
            "status": "failure",
            "failure": failure | {"code": say("code")},
            "summary": say("summary"),
            "learnings": [say("learning")],
            "verification": {"command": say("command"), "output": say("output"), "exit_code": 1},
        }
        decision = call("AGENT", f"{attempt}/result", report)
        if ends == "escalate":
            call(
                "OPERATOR",
                f"/escalations/{decision['escalation']['id']}/comment",
                {"text": say("comment")},
            )
    session = {"agent": call.known["TENFOUR_AGENT"], "title": say("session")}
    made = call("AGENT", "/sessions", session | {"metadata": {"about": say("metadata")}})
    message = [{"role": "user", "content": say("content")}]
    call("AGENT", f"/sessions/{made['id']}/messages", message)


def visit(call: Caller) -> str:
    """Open pages whose addresses have secrets, and return the secret of an invitation."""
    call.sign_in()
    people = "/settings/people/"
    page = call.submit(people, f"{people}invitations/", {"role": "viewer"})
    found = INVITATION.search(page)
    assert found, page
    for path in (found[0], f"/walrus_page/{TOKEN}/", f"/v1/walrus_api/{TOKEN}"):
        call.http.get(path, params={"q": say("query")})
        call.http.post(path, data={"name": say("form")})
    return found[1]


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    folder = tmp_path_factory.mktemp("outside")
    copy_migrated(data_folder("outside"))
    with receive() as receiver, receive_spans() as traced:
        instance = Instance(
            data_folder("outside"),
            TENFOUR_LOG_JSON="1",
            TENFOUR_METRICS_ALLOW="127.0.0.1",
            TENFOUR_WEBHOOK_ALLOW=receiver.allowed,
            OTEL_EXPORTER_OTLP_ENDPOINT=traced.endpoint,
            OTEL_BSP_SCHEDULE_DELAY="100",
        ).start()
        url = f"http://127.0.0.1:{instance.port}"
        try:
            with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:
                call = Caller(instance, http)
                tell(call, receiver)
                invitation = visit(call)
                wait_until(lambda: has_arrived(receiver, traced), instance.said)
                metrics = http.get("/metrics").text
            texts = {
                "metrics": metrics,
                "backup": read_backup(instance, folder),
                "export": read_export(instance, folder),
            }
        finally:
            instance.end(signal.SIGINT)
        yield Outside(
            texts
            | {
                "log": instance.said(),
                "messages": read_messages(receiver),
                "traces": json.dumps([vars(span) for span in traced.spans]),
            },
            invitation,
        )


def has_arrived(receiver: Receiver, traced: SpanReceiver) -> bool:
    paths = {each.path for each in list(receiver.received)}
    return (
        len(paths) == 2
        and "walrus_title" in read_messages(receiver)
        and len(traced.named("tenfour.report")) == 2
    )


def read_messages(receiver: Receiver) -> str:
    return "\n".join(
        f"{each.path} {each.headers} {each.body.decode()}" for each in list(receiver.received)
    )


def read_backup(instance: Instance, folder: Path) -> str:
    """Return a backup's files, and its database as SQL."""
    file = folder / "tenfour.backup"
    done = manage(instance.data, "backup", file)
    assert done.returncode == 0, done.stderr
    with tarfile.open(file) as archive:
        backups.extract_members(archive, folder)
    others = [folder / name for name in (*backups.SECRETS, backups.MANIFEST)]
    servers = backups.servers_in_use(place_of(instance.data))
    dump = backups.run_tool("pg_restore", servers, "--file=-", str(folder / backups.DUMP))
    return "\n".join([dump, *(path.read_text() for path in others)])


def read_export(instance: Instance, folder: Path) -> str:
    done = manage(instance.data, "export", folder / "export")
    assert done.returncode == 0, done.stderr
    files = [path for path in (folder / "export").rglob("*") if path.is_file()]
    return "\n".join(path.read_text() for path in files)


# the fields that get to each place at least
ARRIVE = {
    "log": {"page", "api"},
    "metrics": {"named"},
    "messages": {"title", "named"},
    "traces": {"worker", "page", "api"},
    "backup": {"title", "message", "comment", "worker", "named", "metadata", "content"},
    "export": {"title", "message", "output"},
}


@pytest.mark.parametrize("place", ARRIVE)
def test_what_leaves_tenfour_has_the_words_and_not_the_secrets(
    outside: Outside, place: str
) -> None:
    text = outside.texts[place]
    assert ARRIVE[place] - set(WORD.findall(text)) == set()
    assert place not in ("log", "traces") or "/join/[redacted:invitation]/" in text
    left = [text[max(0, found.start() - 100) : found.end()] for found in LEFT.finditer(text)]
    assert not left, "\n".join(left[:20])
    assert outside.invitation not in text
